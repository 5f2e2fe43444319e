import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { need, type Schemas } from "../../client";
import { api, queries } from "../app/api";
import { useNow } from "../app/hooks";
import type { Look } from "../app/icon";
import { Button } from "../app/pieces";
import { usePages } from "../list/read";
import { LongText } from "../session/details";
import { age, oneLine, plural, pretty, safe } from "../text/text";
import { command } from "./command";
import { Ask, Cli } from "./dialog";
import { useItem } from "./pages";
import { Facts, Head, Lines, Loaded, Missing, More, Scoped, Split } from "./pieces";

type Agent = Schemas["AgentEntry"];

const looks: Record<string, Look> = {
  active: { icon: "check", word: "Active", tone: "good" },
  archived: { icon: "pause", word: "Archived", tone: "soft" },
  deleted: { icon: "cross", word: "Deleted", tone: "soft" },
};
const look = (a: Agent): Look => looks[a.status] ?? { icon: "dot", word: oneLine(a.status, 30), tone: "soft" };
const sources: Record<string, string> = { given: "from mcp.json", kept: "stored" };
const idOf = (a: Agent) => a.id || a.name;

// Agents lists the agents that sessions can be started with.
export function Agents() {
  const { item } = useItem();
  const read = usePages<Agent>(["settings-agents"], (at, signal) => need(api.GET("/v1/agents", { signal, params: { query: at } })));
  const chosen = read.rows?.find((a) => idOf(a) === item);
  return (
    <>
      <Head title="Agents" about="Instructions, model, tools and limits. A session keeps the version that it was started with." />
      <Loaded read={{ ...read, data: read.rows }}>
        {(all) => (
          <Split
            section="agents"
            noun="agent"
            list={
              <Lines
                section="agents"
                chosen={item}
                label={plural(all.length, "agent")}
                empty="No agent is stored. Create one with: perdure agent apply FILE"
                lines={all.map((a) => ({
                  id: `${a.source} ${idOf(a)}`,
                  item: idOf(a),
                  look: look(a),
                  title: oneLine(a.name, 80),
                  detail: [sources[a.source] ?? a.source, a.version ? `version ${a.version}` : "", a.description && oneLine(a.description, 120)].filter(Boolean).join(" · "),
                }))}
              />
            }
            detail={chosen ? <AgentDetail key={idOf(chosen)} of={chosen} /> : item !== undefined ? <Missing noun="agent" id={item} section="agents" /> : undefined}
          />
        )}
      </Loaded>
      <More read={read} />
      <Cli text="perdure agent apply agent.yaml" />
    </>
  );
}

function AgentDetail({ of }: { of: Agent }) {
  const now = useNow(10_000);
  const id = idOf(of);
  const [asking, setAsking] = useState(false);
  const [version, setVersion] = useState("");
  const gone = of.status === "deleted";
  const effective = useQuery({
    queryKey: ["effective-agent", id],
    enabled: !gone,
    queryFn: ({ signal }) => need<Schemas["EffectiveAgent"]>(api.GET("/v1/agents/{agent}/effective", { signal, params: { path: { agent: id } } })),
  });
  const versions = usePages<Agent>(["agent-versions", id], (at, signal) => need(api.GET("/v1/agents/{agent}/versions", { signal, params: { path: { agent: id }, query: at } })), { enabled: of.source === "kept" });
  const shown = versions.rows?.find((v) => String(v.version) === version) ?? of;
  return (
    <>
      <h2>{safe(of.name)}</h2>
      <Facts
        facts={[
          ["State", look(of).word],
          ["Source", sources[of.source] ?? of.source],
          ["Id", of.id && <code>{of.id}</code>],
          ["Description", of.description && <span className="untrusted">{safe(of.description)}</span>],
          ["Harness", of.harness_id && <code>{of.harness_id}</code>],
          ["Changed", of.updated_at && `${age(of.updated_at, now)}${of.by ? ` by ${oneLine(of.by, 60)}` : ""}`],
        ]}
      />
      {!gone && (
        <>
          <h3>As a new session would use it</h3>
          <Loaded read={effective}>{(e) => <LongText text={pretty(e.agent)} label="Effective agent" />}</Loaded>
        </>
      )}
      {of.source === "kept" && (
        <>
          <label>
            Stored text of version
            <select className="field" value={version || String(of.version)} onChange={(e) => setVersion(e.target.value)}>
              {(versions.rows ?? [of]).map((v) => (
                <option key={v.version} value={v.version}>
                  {v.version} · {v.updated_at ? new Date(v.updated_at).toLocaleString() : ""} {v.by ? `· ${oneLine(v.by, 40)}` : ""}
                </option>
              ))}
            </select>
          </label>
          <LongText text={pretty(shown.overlay)} label={`Version ${shown.version}`} />
          {!gone && (
            <Scoped scope="admin">
              <div>
                <Button onPress={() => setAsking(true)}>Delete…</Button>
              </div>
            </Scoped>
          )}
        </>
      )}
      <Cli text={command("perdure", "agent", "show", of.name, "--effective")} />
      {asking && (
        <Ask
          title={`Delete the agent ${oneLine(of.name, 60)}?`}
          action="Delete"
          word={of.name}
          cli={command("perdure", "agent", "delete", of.name)}
          curl={{ method: "DELETE", path: `/v1/agents/${id}` }}
          run={async () => {
            await need(api.DELETE("/v1/agents/{agent}", { params: { path: { agent: id } } } as never));
            void queries.invalidateQueries({ queryKey: ["settings-agents"] });
            void queries.invalidateQueries({ queryKey: ["agents"] });
          }}
          onClose={() => setAsking(false)}
        >
          <p>Its versions stay readable. Turns of sessions that need it fail.</p>
        </Ask>
      )}
    </>
  );
}
