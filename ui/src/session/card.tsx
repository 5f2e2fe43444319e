import { Link } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { Button as AriaButton } from "react-aria-components";
import { useNow } from "../app/hooks";
import { Icon, State } from "../app/icon";
import { Button } from "../app/pieces";
import type { Progress } from "../event/types";
import { Detach } from "../task/detach";
import { lifeOf, lifeWords } from "../task/life";
import { duration, oneLine, pretty, safe } from "../text/text";
import { approvalLook } from "../approval/look";
import { Images } from "./image";
import { callLook, classWords } from "./look";
import type { CallEntry } from "./transcript";

const ResolveCall = lazy(async () => ({ default: (await import("./resolve")).ResolveCall }));
const shortChars = 2000; // of a long text, until more is asked for
const liveLines = 6;
const mostDots = 6;

// CallCard shows one call: what it does, how far it is, and, opened, its exact arguments and result.
export function CallCard({ call, session }: { call: CallEntry; session: string }) {
  const [open, setOpen] = useState(false);
  const running = call.state === "running" || call.state === "background";
  const child = call.task?.links?.child_session_id;
  return (
    <article className={`card ${call.state}`} data-state={call.state} aria-label={`Call of ${call.name}`}>
      <AriaButton className="button row" aria-expanded={open} onPress={() => setOpen(!open)}>
        <span className="what" dir="auto">
          {call.title || call.name || "Call"} <span>{call.narration && call.narration !== call.title ? call.narration : oneLine(pretty(call.args), 120)}</span>
        </span>
        {call.class && (
          <span className="pill class" title={classWords[call.class]}>
            {call.class.replaceAll("_", " ")}
          </span>
        )}
        <span className="row-of">
          <Executions count={call.executions} />
          <State look={callLook(call.state)} />
        </span>
      </AriaButton>
      {(running || call.state === "unknown" || child || open) && (
        <div className="body">
          {running && <Live call={call} />}
          {call.state === "running" && !call.taskId && <Detach session={session} call={call.id} />}
          {call.state === "unknown" && <Unknown call={call} session={session} />}
          {child && (
            <p className="small">
              Subagent:{" "}
              <Link to="/sessions/$id" params={{ id: child }}>
                {oneLine(call.task?.display_name || child, 80)}
              </Link>
              {call.task && ` · ${call.task.state.replaceAll("_", " ")}`}
            </p>
          )}
          {open && <Details call={call} session={session} />}
        </div>
      )}
    </article>
  );
}

function Live({ call }: { call: CallEntry }) {
  const now = useNow();
  const lines = safe(call.output).trimEnd().split("\n").slice(-liveLines).join("\n");
  return (
    <>
      <p className="soft small">
        {call.startedAt && `for ${duration(now - Date.parse(call.startedAt))}`}
        {call.status && ` · ${oneLine(call.status, 200)}`}
        {` · ${lifeWords[call.task ? lifeOf(call.task) : call.state === "background" ? "detached" : "turn"]}`}
        {call.taskId && (
          <>
            {" · "}
            <Link to="/tasks/$id" params={{ id: call.taskId }}>
              open the task
            </Link>
          </>
        )}
      </p>
      <Bar progress={call.progress} />
      {lines && <pre className="code">{lines}</pre>}
    </>
  );
}

// Bar shows how far work has got, where it says so.
export function Bar({ progress }: { progress?: Progress }) {
  if (!progress || progress.current === undefined) return null;
  const words = `${progress.current}${progress.total ? ` of ${progress.total}` : ""} ${progress.unit ?? ""}`.trim();
  return (
    <p className="small soft">
      {progress.total ? <progress max={progress.total} value={progress.current} aria-label="Progress" /> : null}
      {words} {oneLine(progress.label ?? "", 80)}
    </p>
  );
}

// Executions shows how often a call was started, if more than once.
function Executions({ count }: { count: number }) {
  if (count < 2) return null;
  return (
    <span className="dots tone-warn" title={`Started ${count} times`}>
      {Array.from({ length: Math.min(count, mostDots) }, (_, i) => (
        <Icon key={i} name="dot" />
      ))}
      <span className="visually-hidden">started {count} times</span>
      {count > mostDots && count}
    </span>
  );
}

function Unknown({ call, session }: { call: CallEntry; session: string }) {
  return (
    <>
      <p>
        Nobody knows whether this call took effect: its worker ended between claim and outcome, and its effect must not happen twice. Check at the other service, then record what you found.
      </p>
      <p>
        {call.taskId ? (
          <Link to="/tasks/$id" params={{ id: call.taskId }} className="tone-bad">
            Claimed, outcome unknown: resolve the task
          </Link>
        ) : (
          <Suspense>
            <ResolveCall call={call} session={session} />
          </Suspense>
        )}
      </p>
    </>
  );
}

function Details({ call, session }: { call: CallEntry; session: string }) {
  return (
    <>
      <h3>Arguments</h3>
      <LongText text={pretty(call.args)} label="Arguments" />
      {call.approval && call.approval.state !== "open" && (
        <p className="row-of small">
          <State look={approvalLook(call.approval.state)} />
          <span>
            {call.approval.decided_by && `by ${oneLine(call.approval.decided_by, 60)}`}
            {call.approval.note && `: “${oneLine(call.approval.note, 300)}”`}
          </span>
          <Link to="/approvals" search={{ tab: "decided", id: call.approval.id }}>
            The decision
          </Link>
        </p>
      )}
      {call.result && (
        <>
          <h3>
            {call.result.error ? "Error" : "Result"} {call.result.untrusted && <span className="tone-warn">· from outside, not trusted</span>}
          </h3>
          {call.result.error && <LongText text={safe(call.result.error)} label="Error" />}
          {call.result.result !== undefined && <LongText text={pretty(call.result.result)} label="Result" />}
          <Images session={session} images={call.result.images ?? []} />
        </>
      )}
      <p className="soft small">
        {call.class && `${classWords[call.class] ?? call.class} · `}
        {call.lane && `${call.lane} lane · `}
        {call.executions > 1 && `started ${call.executions} times · `}
        {call.durationMs > 0 && `${duration(call.durationMs)} · `}
        <span className="mono">{call.id}</span>
      </p>
    </>
  );
}

// LongText shows the beginning of a long text, and the rest on demand.
export function LongText({ text, label }: { text: string; label: string }) {
  const [all, setAll] = useState(false);
  const long = text.length > shortChars && !all;
  return (
    <>
      <pre className="code" dir="auto" tabIndex={0} aria-label={label}>
        {long ? text.slice(0, shortChars) + "…" : text || "(empty)"}
      </pre>
      {long && (
        <span>
          <Button look="bare" onPress={() => setAll(true)}>
            Show all {text.length.toLocaleString()} characters
          </Button>
        </span>
      )}
    </>
  );
}
