import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { need, type Schemas } from "../../client";
import { api } from "../app/api";
import type { Look } from "../app/icon";
import { Button, Failure } from "../app/pieces";
import { useMay } from "../principal/principal";
import { LongText } from "../session/details";
import { classWords } from "../session/look";
import { oneLine, plural, pretty, safe } from "../text/text";
import { useAct } from "./act";
import { command, example, span } from "./command";
import { Cli } from "./dialog";
import { useItem } from "./pages";
import { Facts, Head, Lines, Loaded, Missing, Split } from "./pieces";

type Tool = Schemas["Tool"];

// useTools reads all tools.
export const useTools = () => useQuery({ queryKey: ["tools"], queryFn: async ({ signal }) => (await need<{ items: Tool[] | null }>(api.GET("/v1/tools", { signal }))).items ?? [] });

const permissions: Record<string, Look> = {
  auto: { icon: "check", word: "Runs by itself", tone: "good" },
  requires_approval: { icon: "hand", word: "Asks first", tone: "warn" },
  client_side: { icon: "clock", word: "Runs at the client", tone: "soft" },
};

export const permission = (t: Tool): Look => permissions[t.policy] ?? { icon: "dot", word: oneLine(t.policy, 40), tone: "soft" };

const short: Record<string, string> = { pure: "pure", idempotent: "idempotent", at_most_once: "at most once" };

// Tools lists the tools of this server.
export function Tools() {
  const { item, q, filter } = useItem();
  const read = useTools();
  return (
    <>
      <Head title="Tools" about="What models and callers of this server can use. The effect class decides what happens with a call after a crash." />
      <Loaded read={read}>
        {(tools) => {
          const text = q.toLowerCase();
          const shown = tools.filter((t) => !text || `${t.name} ${t.display_name} ${t.capability ?? ""} ${t.class}`.toLowerCase().includes(text));
          const chosen = tools.find((t) => t.name === item);
          return (
            <Split
              section="tools"
              noun="tool"
              list={
                <>
                  <input className="field" type="search" aria-label="Filter the tools" placeholder={`Filter ${plural(tools.length, "tool")}`} value={q} onChange={(e) => filter(e.target.value)} />
                  <Lines
                    section="tools"
                    chosen={item}
                    label={plural(shown.length, "tool")}
                    empty={tools.length === 0 ? "This server has no tools." : "No tool matches the filter."}
                    lines={shown.map((t) => ({
                      id: t.name,
                      item: t.name,
                      look: permission(t),
                      title: oneLine(t.display_name || t.name, 80),
                      detail: `${oneLine(t.name, 80)} · ${short[t.class] ?? t.class}${t.capability ? ` · capability ${oneLine(t.capability, 60)}` : ""}`,
                    }))}
                  />
                </>
              }
              detail={chosen ? <ToolDetail key={chosen.name} tool={chosen} /> : item !== undefined ? <Missing noun="tool" id={item} section="tools" /> : undefined}
            />
          );
        }}
      </Loaded>
    </>
  );
}

function ToolDetail({ tool }: { tool: Tool }) {
  const look = permission(tool);
  const hints = tool.hints;
  const says = [
    hints?.readonly && "changes nothing",
    hints?.destructive && "may remove or replace something",
    hints?.open_world && "may reach things outside the session",
    hints?.requires_secrets && "works with secrets",
    hints?.payment && "may pay",
    hints?.long_running && "may take long",
  ].filter(Boolean);
  return (
    <>
      <h2>{safe(tool.display_name || tool.name)}</h2>
      <p className="untrusted small" dir="auto">
        {safe(tool.description)}
      </p>
      <Facts
        facts={[
          ["Name", <code key="n">{safe(tool.name)}</code>],
          ["Effect class", classWords[tool.class] ?? tool.class],
          ["Permission", look.word],
          ["Capability", tool.capability ? oneLine(tool.capability, 100) : "none needed"],
          ["In the background", tool.background ? "possible" : "no"],
          ["Soft budget", span(tool.soft_budget_ns)],
          ["Deadline", span(tool.deadline_ns)],
          ["A call", says.join(", ")],
        ]}
      />
      <h3>Arguments</h3>
      <LongText text={pretty(tool.input_schema)} label="Schema of the arguments" />
      <ToolCall tool={tool} />
    </>
  );
}

// ToolCall calls a tool once, outside any session.
export function ToolCall({ tool }: { tool: Tool }) {
  const { may, why } = useMay("write");
  const [text, setText] = useState(() => JSON.stringify(example(tool.input_schema), null, 2));
  const call = useAct(() =>
    need<Schemas["ToolResult"]>(api.POST("/v1/tools/{name}/call", { params: { path: { name: tool.name } }, body: { args: JSON.parse(text) as unknown } } as never)),
  );
  const refusal =
    tool.class === "at_most_once" ? "A test call is not offered: the effect of this tool must not happen twice. Call it in a session, which records it."
    : tool.needs_env ? "A test call is not offered: this tool needs a session, whose files or values it uses."
    : tool.policy !== "auto" ? "A test call is not offered: calls of this tool need an approval or a client."
    : !may ? why
    : "";
  let wrong = "";
  try {
    JSON.parse(text);
  } catch (err) {
    wrong = (err as Error).message;
  }
  return (
    <>
      <h3>Test call</h3>
      {refusal ? (
        <p className="soft small">{refusal}</p>
      ) : (
        <form
          className="stack"
          onSubmit={(e) => {
            e.preventDefault();
            call.run();
          }}
        >
          <label>
            Arguments, as JSON
            <textarea className="field mono" rows={Math.min(10, Math.max(3, text.split("\n").length))} value={text} onChange={(e) => setText(e.target.value)} spellCheck={false} aria-describedby={wrong ? "json-fault" : undefined} />
          </label>
          {wrong && (
            <p className="small tone-bad" id="json-fault">
              This is not JSON: {oneLine(wrong, 160)}
            </p>
          )}
          <div className="row-of">
            <Button type="submit" look="first" isDisabled={call.pending || !!wrong}>
              {call.pending ? "Calling…" : "Call once"}
            </Button>
            <span className="soft small">Outside any session; nothing is recorded in a transcript.</span>
          </div>
          {call.error ? <Failure error={call.error} /> : null}
          {call.result && (
            <div role="status" className={call.result.error ? "notice bad" : "notice"}>
              <p>
                <strong>{call.result.error ? "The tool returned an error" : "Result"}</strong>
              </p>
              <LongText text={call.result.error ? safe(call.result.error) : pretty(call.result.result)} label="Result of the call" />
            </div>
          )}
          <Cli text={command("perdure", "tool", "call", tool.name, wrong ? "{}" : JSON.stringify(JSON.parse(text)))} curl={{ method: "POST", path: `/v1/tools/${tool.name}/call`, body: { args: wrong ? {} : (JSON.parse(text) as unknown) } }} />
        </form>
      )}
    </>
  );
}
