import { Link } from "@tanstack/react-router";
import { need, type Schemas } from "../../client";
import { api } from "../app/api";
import { usePages } from "../list/read";
import { oneLine, plural, safe } from "../text/text";
import { command } from "./command";
import { Cli } from "./dialog";
import { useItem } from "./pages";
import { Facts, Head, Lines, Loaded, Missing, More, Split } from "./pieces";

type Entry = Schemas["AuditEntry"];

// families are groups of actions.
const families = ["", "token.*", "approval.*", "secret.*", "egress.*", "provider.*", "webhook.*", "budget.*"];

const when = (at: string) => new Date(at).toLocaleString([], { dateStyle: "short", timeStyle: "medium" });

// Audit lists who did what, the newest entry first.
export function Audit() {
  const { item, q, filter } = useItem();
  const read = usePages<Entry>(["audit", q], (at, signal) => need(api.GET("/v1/audit", { signal, params: { query: { ...at, order: "newest", ...(q ? { action: q } : {}) } } })), { every: 10_000 });
  const chosen = read.rows?.find((e) => String(e.seq) === item);
  return (
    <>
      <Head title="Audit log" about="Accountable actions of this org, the newest first. Entries are never changed or removed; each has the hash of the one before." />
      <label>
        Actions
        <select className="field" value={q} onChange={(e) => filter(e.target.value)}>
          {[...new Set([...families, q])].map((f) => (
            <option key={f} value={f}>
              {f || "all"}
            </option>
          ))}
        </select>
      </label>
      <Loaded read={{ ...read, data: read.rows }}>
        {(all) => (
          <Split
            section="audit"
            noun="entry"
            list={
              <Lines
                section="audit"
                chosen={item}
                label={plural(all.length, "entry").replace("entrys", "entries")}
                empty="There is no entry."
                lines={all.map((e) => ({
                  id: String(e.seq),
                  item: String(e.seq),
                  title: `${oneLine(e.action, 60)} · ${oneLine(e.subject, 80)}`,
                  detail: `${e.seq} · ${when(e.at)} · ${oneLine(e.actor || "a tool", 60)}`,
                }))}
              />
            }
            detail={chosen ? <EntryDetail of={chosen} /> : item !== undefined ? <Missing noun="entry" id={item} section="audit" /> : undefined}
          />
        )}
      </Loaded>
      <More read={read} />
      <Cli text={command("perdure", "audit", "list", "--newest", "--limit", "100", ...(q ? ["--action", q] : []))} curl={{ method: "GET", path: `/v1/audit?order=newest${q ? `&action=${encodeURIComponent(q)}` : ""}` }} />
    </>
  );
}

function EntryDetail({ of }: { of: Entry }) {
  return (
    <>
      <h2>{oneLine(of.action, 80)}</h2>
      <Facts
        facts={[
          ["Seq", of.seq],
          ["At", `${new Date(of.at).toLocaleString()} (${of.at})`],
          ["Actor", safe(of.actor)],
          ["Subject", <span key="s" className="untrusted">{safe(of.subject)}</span>],
          [
            "Session",
            of.session_id && (
              <Link key="l" to="/sessions/$id" params={{ id: of.session_id }}>
                {of.session_id}
              </Link>
            ),
          ],
          ["Event", of.event_id && <code>{of.event_id}</code>],
          ...Object.entries(of.detail ?? {}).map(([k, v]): [string, string] => [oneLine(k, 40), safe(String(v))]),
          ["Hash", <code key="h">{of.hash}</code>],
          ["Hash before", of.prev && <code>{of.prev}</code>],
        ]}
      />
    </>
  );
}
