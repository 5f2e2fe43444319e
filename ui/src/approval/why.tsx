import { Link } from "@tanstack/react-router";
import { useNow } from "../app/hooks";
import type { Approval } from "../event/types";
import { age, clock, duration, oneLine, safe } from "../text/text";
import { visible } from "../text/exact";
import { useAgentPath } from "./read";

// asked explains the kinds of permissions that the runtime itself asks about.
export const asked: Record<string, string> = {
  tool: "each call of this tool needs an approval here",
  effect: "this session asks before each effect",
  untrusted: "the model has read untrusted content, and may follow instructions in it",
  secret: "the call uses this secret",
  host: "the call reaches this host",
  path: "the call reaches this path",
};

// AgentPath shows who asks: the session, and those that started it.
export function AgentPath({ session }: { session: string }) {
  const path = useAgentPath(session);
  if (!path.data) {
    return (
      <Link to="/sessions/$id" params={{ id: session }} className="mono">
        {session}
      </Link>
    );
  }
  return (
    <>
      {path.data.map((s, i) => (
        <span key={s.id}>
          {i > 0 && <span aria-label="started"> › </span>}
          <Link to="/sessions/$id" params={{ id: s.id }} dir="auto">
            {oneLine(s.title || "Untitled", 80)}
          </Link>
          {s.agent.name && <span className="soft"> ({oneLine(s.agent.name, 60)})</span>}
        </span>
      ))}
    </>
  );
}

// Why lists who asks, why a person is asked, and what is known about the question.
export function Why({ approval }: { approval: Approval }) {
  const now = useNow();
  const plain = (text: string) => text.toLowerCase().replaceAll(/[^a-z0-9]+/g, "_");
  const said = new Set([approval.tool, ...approval.permissions.map((p) => p.reason ?? "")].map(plain)); // what needs no second line
  return (
    <dl className="facts">
      <dt>Asked by</dt>
      <dd>
        <AgentPath session={approval.session_id} />
      </dd>
      <dt>Needs</dt>
      <dd>
        <ul>
          {approval.permissions.map((p, i) => (
            <li key={i} className={p.kind === "untrusted" ? "tone-warn" : undefined}>
              <strong>{oneLine(p.kind, 40)}</strong> <span className="mono">{visible(oneLine(p.target, 400))}</span>
              {asked[p.kind] && <span className="soft">: {asked[p.kind]}</span>}
              {p.reason && p.reason !== asked[p.kind] && <Unverified text={p.reason} />}
            </li>
          ))}
        </ul>
      </dd>
      {approval.reason && approval.reason !== approval.summary && !said.has(plain(approval.reason)) && (
        <>
          <dt>Reason</dt>
          <dd>
            <Unverified text={approval.reason} />
          </dd>
        </>
      )}
      {approval.summary && !said.has(plain(approval.summary)) && (
        <>
          <dt>Says</dt>
          <dd>
            <Unverified text={approval.summary} />
          </dd>
        </>
      )}
      {Object.entries(approval.metadata ?? {}).map(([key, value]) => (
        <Meta key={key} name={key} value={value} />
      ))}
      <dt>Asked</dt>
      <dd>
        {age(approval.requested_at, now)}, at {clock(approval.requested_at)}
      </dd>
      {approval.expires_at && approval.state === "open" && (
        <>
          <dt>Expires</dt>
          <dd className={Date.parse(approval.expires_at) - now < 60_000 ? "tone-warn" : undefined}>
            {Date.parse(approval.expires_at) > now ? `in ${duration(Date.parse(approval.expires_at) - now)}: then the call is refused` : "now"}
          </dd>
        </>
      )}
      <dt>Call</dt>
      <dd className="mono">
        {safe(approval.call_id)}
        {approval.task_id && (
          <>
            {" · "}
            <Link to="/tasks/$id" params={{ id: approval.task_id }}>
              {approval.task_id}
            </Link>
          </>
        )}
      </dd>
      <dt>Digest</dt>
      <dd className="mono digest">{safe(approval.args_digest)}</dd>
    </dl>
  );
}

// Unverified is a text that a model or a tool wrote.
function Unverified({ text }: { text: string }) {
  return (
    <span className="unverified" dir="auto">
      <span className="soft">not verified:</span> “{visible(oneLine(text, 600))}”
    </span>
  );
}

function Meta({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt dir="auto">{visible(oneLine(name, 60))}</dt>
      <dd>
        <Unverified text={value} />
      </dd>
    </>
  );
}
