import { getRouteApi, Link } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import { useTitle } from "../app/hooks";
import { NotFound } from "../app/notfound";
import { type Scope, useMay } from "../principal/principal";
import { groups, type Section, sectionOf } from "./sections";
import "./settings.css";

const route = getRouteApi("/settings/$section");

// panels are the sections. Each is a file of its own that is loaded when it is shown.
const panels = {
  tools: lazy(async () => ({ default: (await import("./tools")).Tools })),
  mcp: lazy(async () => ({ default: (await import("./mcp")).Servers })),
  agents: lazy(async () => ({ default: (await import("./agents")).Agents })),
  connections: lazy(async () => ({ default: (await import("./connections")).Connections })),
  secrets: lazy(async () => ({ default: (await import("./secrets")).Secrets })),
  egress: lazy(async () => ({ default: (await import("./egress")).Egress })),
  payments: lazy(async () => ({ default: (await import("./payments")).Payments })),
  providers: lazy(async () => ({ default: (await import("./providers")).Providers })),
  tokens: lazy(async () => ({ default: (await import("./tokens")).Tokens })),
  webhooks: lazy(async () => ({ default: (await import("./webhooks")).Webhooks })),
  audit: lazy(async () => ({ default: (await import("./audit")).Audit })),
  storage: lazy(async () => ({ default: (await import("./storage")).StoragePanel })),
  about: lazy(async () => ({ default: (await import("./about")).About })),
};

// SettingsIndex lists the sections.
export function SettingsIndex() {
  useTitle("Settings");
  return (
    <div className="scroll">
      <div className="settings-index">
        <h1>Settings</h1>
        {groups.map((g) => (
          <section key={g.title} aria-label={g.title}>
            <h2>{g.title}</h2>
            <ul>
              {g.sections.map((s) => (
                <li key={s.id}>
                  <Entry section={s} about />
                </li>
              ))}
            </ul>
          </section>
        ))}
      </div>
    </div>
  );
}

// SettingsPage is one section, beside the list of all.
export function SettingsPage() {
  const { section: id } = route.useParams();
  const section = sectionOf(id);
  useTitle(section?.title ?? "Not found");
  if (!section) return <NotFound what="page" />;
  return (
    <div className="settings">
      <nav className="settings-nav" aria-label="Sections of the settings">
        {groups.map((g) => (
          <div key={g.title}>
            <p className="soft small">{g.title}</p>
            <ul>
              {g.sections.map((s) => (
                <li key={s.id}>
                  <Entry section={s} />
                </li>
              ))}
            </ul>
          </div>
        ))}
      </nav>
      <div className="scroll">
        <div className="settings-body">
          <Link to="/settings" className="settings-up">
            ‹ Settings
          </Link>
          <Panel section={section} />
        </div>
      </div>
    </div>
  );
}

function Panel({ section }: { section: Section }) {
  const { may, why } = useMay(section.scope);
  if (!may) {
    return (
      <>
        <h1>{section.title}</h1>
        <p>{section.about}.</p>
        <div className="notice">
          <p>{why}</p>
          <p className="soft small">An administrator can create a token that has it: perdure token create NAME --scope {section.scope}</p>
        </div>
      </>
    );
  }
  const Body = panels[section.id as keyof typeof panels];
  return (
    <Suspense
      fallback={
        <p role="status" className="soft">
          Loading…
        </p>
      }
    >
      <Body />
    </Suspense>
  );
}

function Entry({ section, about }: { section: Section; about?: boolean }) {
  const { may } = useMay(section.scope);
  return (
    <Link to="/settings/$section" params={{ section: section.id }} search={{}} activeOptions={{ includeSearch: false }}>
      <span>
        {section.title}
        {about && <small>{section.about}</small>}
      </span>
      {!may && <Needs scope={section.scope} />}
    </Link>
  );
}

const Needs = ({ scope }: { scope: Scope }) => <span className="needs">needs {scope}</span>;
