import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { need, type Schemas } from "../../client";
import { api, queries, server } from "../app/api";
import { useNow } from "../app/hooks";
import type { Look } from "../app/icon";
import { Button, CopyLine, Failure } from "../app/pieces";
import { usePages } from "../list/read";
import { useMay } from "../principal/principal";
import { LongText } from "../session/details";
import { age, oneLine, plural, safe } from "../text/text";
import { ServerAccounts } from "./accounts";
import { useAct } from "./act";
import { command } from "./command";
import { Cli } from "./dialog";
import { useItem } from "./pages";
import { Facts, Head, Lines, Loaded, Missing, Scoped, Split } from "./pieces";
import { ToolCall, useTools } from "./tools";

type Connection = Schemas["Connection"];

const states: Record<string, Look> = {
  ready: { icon: "check", word: "Ready", tone: "good" },
  expired: { icon: "clock", word: "Expired", tone: "warn" },
  unreachable: { icon: "cross", word: "Unreachable", tone: "bad" },
  unknown: { icon: "ask", word: "Not asked yet", tone: "soft" },
};

export const connectionLook = (c: Connection): Look => states[c.state] ?? { icon: "dot", word: oneLine(c.state, 40), tone: "soft" };

// useConnections reads accounts and servers.
export const useConnections = (every?: number) =>
  usePages<Connection>(["connections"], (at, signal) => need(api.GET("/v1/connections", { signal, params: { query: at } })), every ? { every } : {});

// Servers lists the MCP servers whose tools agents use, and says how MCP clients use this server.
export function Servers() {
  const { item } = useItem();
  const read = useConnections();
  const servers = read.rows?.filter((c) => c.kind !== "account");
  const chosen = servers?.find((c) => c.name === item);
  return (
    <>
      <Head title="MCP servers" about="Servers of mcp.json in the data directory, whose tools agents use if they choose the capability. This server reads the file when it starts." />
      <Loaded read={{ ...read, data: servers }}>
        {(all) => (
          <Split
            section="mcp"
            noun="server"
            list={
              <Lines
                section="mcp"
                chosen={item}
                label={plural(all.length, "server")}
                empty="No MCP server is configured. Add one to mcp.json in the data directory, and restart the server."
                lines={all.map((c) => ({
                  id: c.name,
                  item: c.name,
                  look: connectionLook(c),
                  title: oneLine(c.name, 80),
                  detail: `${c.kind === "mcp_http" ? oneLine(c.url ?? "HTTP", 80) : `stdio ${oneLine(c.command ?? "", 60)}`} · ${plural(c.tools?.length ?? 0, "tool")}`,
                }))}
              />
            }
            detail={chosen ? <ServerDetail key={chosen.name} of={chosen} /> : item !== undefined ? <Missing noun="server" id={item} section="mcp" /> : undefined}
          />
        )}
      </Loaded>
      <ForClients />
    </>
  );
}

function ServerDetail({ of }: { of: Connection }) {
  const now = useNow(5000);
  const tools = useTools();
  const [name, setName] = useState("");
  const own = tools.data?.filter((t) => t.name.startsWith(`${of.name}__`)) ?? [];
  const tool = own.find((t) => t.name === name);
  return (
    <>
      <h2>{safe(of.name)}</h2>
      <Facts
        facts={[
          ["State", connectionLook(of).word],
          ["Last asked", of.checked_at && age(of.checked_at, now)],
          ["Last error", of.last_error && <span className="untrusted">{safe(of.last_error)}</span>],
          ["Command", of.command && <code>{safe(of.command)}</code>],
          ["URL", of.url && <code className="untrusted">{safe(of.url)}</code>],
          ["Capability", <code key="c">mcp_{safe(of.name)}</code>],
          ["Shared", of.shared && "one process for all sessions"],
        ]}
      />
      <TestConnection name={of.name} verb="Ask for its tools" />
      <ServerAccounts of={of} />
      <h3>Tools</h3>
      {of.tools.length === 0 ? (
        <p className="soft small">None are known.</p>
      ) : (
        <ul className="words">
          {of.tools.map((t) => {
            const full = own.find((o) => o.name === t || o.name === `${of.name}__${t}`);
            return (
              <li key={t}>
                {full ? (
                  <Link to="/settings/$section" params={{ section: "tools" }} search={{ item: full.name }}>
                    {oneLine(t, 80)}
                  </Link>
                ) : (
                  oneLine(t, 80)
                )}
              </li>
            );
          })}
        </ul>
      )}
      {own.length > 0 && (
        <label>
          Call one of them
          <select className="field" value={name} onChange={(e) => setName(e.target.value)}>
            <option value="">Choose a tool</option>
            {own.map((t) => (
              <option key={t.name} value={t.name}>
                {oneLine(t.name, 100)}
              </option>
            ))}
          </select>
        </label>
      )}
      {tool && <ToolCall key={tool.name} tool={tool} />}
    </>
  );
}

// TestConnection tests an account or a server.
export function TestConnection({ name, verb }: { name: string; verb: string }) {
  const test = useAct(
    () => need<Connection>(api.POST("/v1/connections/{connection}/test", { params: { path: { connection: name } }, body: {} } as never)),
    () => {
      void queries.invalidateQueries({ queryKey: ["connections"] });
      void queries.invalidateQueries({ queryKey: ["tools"] });
    },
  );
  return (
    <Scoped scope="write">
      <div className="row-of">
        <Button isDisabled={test.pending} onPress={test.run}>
          {test.pending ? "Testing…" : verb}
        </Button>
        {test.result && (
          <span role="status" className="small">
            {connectionLook(test.result).word}
            {test.result.tools?.length ? `, ${plural(test.result.tools.length, "tool")}` : ""}
            {test.result.last_error ? `: ${oneLine(test.result.last_error, 200)}` : ""}
          </span>
        )}
      </div>
      {test.error ? <Failure error={test.error} /> : null}
      <Cli text={command("perdure", "connection", "test", name)} curl={{ method: "POST", path: `/v1/connections/${name}/test`, body: {} }} />
    </Scoped>
  );
}

// ForClients has the block that an MCP client needs for the tools of this server.
function ForClients() {
  const { may } = useMay("admin");
  const storage = useQuery({ queryKey: ["storage"], queryFn: ({ signal }) => need<Schemas["Storage"]>(api.GET("/v1/storage", { signal })), enabled: may, retry: false });
  const dir = storage.data?.path;
  const stdio = { mcpServers: { perdure: { command: "perdure", args: ["mcp", "serve", ...(dir ? ["--data", dir] : []), "--tool", "*"] } } };
  const http = { mcpServers: { perdure: { type: "http", url: new URL("mcp", server).href, headers: { Authorization: "Bearer TOKEN" } } } };
  return (
    <section className="settings-part" aria-labelledby="for-clients">
      <h2 id="for-clients">For MCP clients</h2>
      <p className="small">A client on the machine of this server starts perdure by itself. Paste this into its configuration:</p>
      <LongText text={JSON.stringify(stdio, null, 2)} label="Block for a client on stdio" />
      <p className="small">The command prints it with absolute paths, for claude, cursor, vscode or generic:</p>
      <CopyLine text="perdure mcp config claude" />
      <p className="small">A client elsewhere uses HTTP. The server offers the tools that it was started with, as in perdure serve --mcp-tool '*'. TOKEN is a token with the scope write:</p>
      <LongText text={JSON.stringify(http, null, 2)} label="Block for a client over HTTP" />
      <p className="small">
        <Link to="/settings/$section" params={{ section: "tokens" }} search={{}}>
          Create a token
        </Link>
      </p>
    </section>
  );
}
