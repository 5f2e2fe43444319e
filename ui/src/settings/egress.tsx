import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { need, type Schemas } from "../../client";
import { api } from "../app/api";
import { useNow } from "../app/hooks";
import { CopyLine } from "../app/pieces";
import { usePages } from "../list/read";
import { age, oneLine, plural, safe } from "../text/text";
import { Head, Lines, Loaded, More } from "./pieces";

type Rules = Schemas["EgressRules"];

const kinds: { key: "blocked" | "allowed" | "private" | "webhooks"; word: string; about: string }[] = [
  { key: "blocked", word: "Blocked", about: "whatever else allows it" },
  { key: "allowed", word: "Allowed", about: "all other hosts are blocked" },
  { key: "private", word: "Private address", about: "tools may reach it" },
  { key: "webhooks", word: "Private address", about: "webhooks may reach it" },
];

// Egress shows the operator's rules for requests, and what was denied.
export function Egress() {
  const now = useNow(5000);
  const rules = useQuery({ queryKey: ["egress"], queryFn: ({ signal }) => need<Rules>(api.GET("/v1/egress", { signal })), refetchInterval: 10_000 });
  const denied = usePages<Schemas["AuditEntry"]>(["denials"], (at, signal) => need(api.GET("/v1/audit", { signal, params: { query: { ...at, action: "egress.denied", order: "newest" } } })), { every: 5000 });
  return (
    <>
      <Head title="Egress" about="Requests of tools and webhooks leave this server through one gate. Private addresses are denied unless a rule names them; agents and sessions can only narrow the rules." />
      <h2>Rules</h2>
      <Loaded read={rules}>
        {(r) =>
          r.broken ? (
            <div className="notice bad">
              <p>
                <strong>The rules cannot be read, so all requests are denied</strong>
              </p>
              <p className="untrusted">{safe(r.broken)}</p>
            </div>
          ) : (
            <Lines
              label="Rules"
              empty="There are no rules: all public hosts can be reached, and no private address."
              lines={kinds.flatMap((k) =>
                (r[k.key] ?? []).map((pattern) => ({
                  id: `${k.key} ${pattern}`,
                  title: <code>{oneLine(pattern, 200)}</code>,
                  detail: k.about,
                  look: k.key === "blocked" ? { icon: "cross", word: k.word, tone: "bad" } : { icon: "check", word: k.word, tone: "good" },
                })),
              )}
            />
          )
        }
      </Loaded>
      <div className="cli">
        <span className="soft small">Rules are changed on the machine of the server, and are in force from the next request on</span>
        <CopyLine text="perdure egress allow api.example.com" />
        <CopyLine text="perdure egress test https://api.example.com/" />
      </div>
      <h2>Recent denials</h2>
      <Loaded read={{ ...denied, data: denied.rows }}>
        {(all) => (
          <Lines
            label={plural(all.length, "denial")}
            empty="No request of a tool was denied."
            lines={all.map((e) => ({
              id: String(e.seq),
              look: { icon: "cross", word: `Denied by the ${oneLine(e.detail?.layer ?? "guard", 30)}`, tone: "bad" },
              title: <code>{oneLine(e.subject, 120)}</code>,
              detail: (
                <>
                  {age(e.at, now)}
                  {e.session_id && (
                    <>
                      {" · "}
                      <Link to="/sessions/$id" params={{ id: e.session_id }}>
                        session {e.session_id.slice(-8)}
                      </Link>
                    </>
                  )}
                  {e.detail?.call_id && ` · call ${oneLine(e.detail.call_id, 40)}`}
                </>
              ),
            }))}
          />
        )}
      </Loaded>
      <More read={denied} />
      <div className="cli">
        <span className="soft small">The same on the command line</span>
        <CopyLine text="perdure egress list" />
        <CopyLine text="perdure audit list --newest --action egress.denied" />
      </div>
    </>
  );
}
