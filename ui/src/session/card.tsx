import { Link } from "@tanstack/react-router";
import { lazy, memo, Suspense, useCallback, useState } from "react";
import { Button as AriaButton } from "react-aria-components";
import { useNow } from "../app/hooks";
import { Icon, State } from "../app/icon";
import type { Progress } from "../event/types";
import { Detach } from "../task/detach";
import { lifeOf, lifeWords } from "../task/life";
import { duration, lastLines, oneLine, pretty, safe } from "../text/text";
import { Details } from "./details";
import { callLook, classWords } from "./look";
import { useText, type Texts } from "./texts";
import type { CallEntry, CallState } from "./transcript";

const ResolveCall = lazy(async () => ({ default: (await import("./resolve")).ResolveCall }));
const liveLines = 6;
const mostDots = 6;

// CallCard shows one call: what it does, how far it is, and, opened, its exact arguments and result.
export function CallCard({ call, session, texts }: { call: CallEntry; session: string; texts: Texts }) {
  const [open, setOpen] = useState(false);
  const toggle = useCallback(() => setOpen((was) => !was), []);
  const running = call.state === "running" || call.state === "background";
  const child = call.task?.links?.child_session_id;
  return (
    <article className={`card ${call.state}`} data-state={call.state} aria-label={`Call of ${call.name}`}>
      <Head
        title={call.title || call.name || "Call"}
        about={call.narration && call.narration !== call.title ? call.narration : oneLine(pretty(call.args), 120)}
        effect={call.class}
        executions={call.executions}
        state={call.state}
        open={open}
        onToggle={toggle}
      />
      {(running || call.state === "unknown" || child || open) && (
        <div className="body">
          {running && <Live call={call} />}
          {running && <Output texts={texts} call={call.id} />}
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

type HeadProps = { title: string; about: string; effect: string; executions: number; state: CallState; open: boolean; onToggle: () => void };

// Head is the line that is always there. It stays as it is while the call reports progress.
const Head = memo(function Head({ title, about, effect, executions, state, open, onToggle }: HeadProps) {
  return (
    <AriaButton className="button row" aria-expanded={open} onPress={onToggle}>
      <span className="what" dir="auto">
        {title} <span>{about}</span>
      </span>
      {effect && (
        <span className="pill class" title={classWords[effect]}>
          {effect.replaceAll("_", " ")}
        </span>
      )}
      <span className="row-of">
        <Executions count={executions} />
        <State look={callLook(state)} />
      </span>
    </AriaButton>
  );
});

function Live({ call }: { call: CallEntry }) {
  const now = useNow();
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
    </>
  );
}

// Output shows the last lines that a running call wrote.
function Output({ texts, call }: { texts: Texts; call: string }) {
  const lines = lastLines(useText(texts, call), liveLines);
  return lines ? <pre className="code">{safe(lines)}</pre> : null;
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
