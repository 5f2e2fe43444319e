import type { Scope } from "../principal/principal";

// Section is one part of the settings. scope is what its requests need.
export type Section = { id: string; title: string; scope: Scope; about: string };

// groups are all sections, in the order in which they are shown.
export const groups: { title: string; sections: Section[] }[] = [
  {
    title: "What agents use",
    sections: [
      { id: "tools", title: "Tools", scope: "read", about: "Effect class, permission and arguments of each tool" },
      { id: "mcp", title: "MCP servers", scope: "read", about: "Servers whose tools agents use, and the block for MCP clients" },
      { id: "agents", title: "Agents", scope: "read", about: "Stored agents, their versions, and what a new session would use" },
      { id: "connections", title: "Connections", scope: "read", about: "Accounts of users at other services" },
      { id: "secrets", title: "Secrets", scope: "read", about: "Names of the secrets of a session, and where they may be sent" },
      { id: "egress", title: "Egress", scope: "admin", about: "Which hosts tools may reach, and recent denials" },
      { id: "payments", title: "Payments", scope: "read", about: "What tools paid, and payments whose outcome is unknown" },
    ],
  },
  {
    title: "Models",
    sections: [{ id: "providers", title: "Providers and models", scope: "read", about: "Keys, tests and the default model" }],
  },
  {
    title: "Access",
    sections: [
      { id: "tokens", title: "Tokens", scope: "admin", about: "Who may call this server, and what for" },
      { id: "webhooks", title: "Webhooks", scope: "admin", about: "Signed events to other servers, and their deliveries" },
      { id: "audit", title: "Audit log", scope: "admin", about: "Who did what" },
    ],
  },
  {
    title: "Server",
    sections: [
      { id: "storage", title: "Storage", scope: "admin", about: "Size, last backup, and a check of all data" },
      { id: "about", title: "About", scope: "read", about: "Version, licences, and the findings of doctor" },
    ],
  },
];

export const sections = groups.flatMap((g) => g.sections);

// sectionOf returns a section by its id.
export const sectionOf = (id: string): Section | undefined => sections.find((s) => s.id === id);
