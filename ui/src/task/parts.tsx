import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { need } from "../../client";
import { api } from "../app/api";
import { State } from "../app/icon";
import { Button, Failure } from "../app/pieces";
import type { Event, Task } from "../event/types";
import { LongText } from "../session/details";
import { age, clock, oneLine, pretty, safe } from "../text/text";
import { attemptsOf } from "./lifeline";
import { taskLook } from "./look";

// ResultPart shows the exact arguments and the result, and the files of the task.
export function ResultPart({ task }: { task: Task }) {
  return (
    <>
      <section>
        <h2>Arguments</h2>
        <LongText text={pretty(task.spec?.arguments)} label="Arguments" />
      </section>
      <section>
        <h2>Result</h2>
        {task.error && (
          <div className="notice bad">
            <p className="untrusted">{safe(task.error.message)}</p>
          </div>
        )}
        {task.summary && <p className="untrusted">{safe(task.summary)}</p>}
        {task.result ? <LongText text={safe(task.result)} label="Result" /> : !task.error && <p className="soft">{task.finished_at ? "It returned no result of its own." : "It has none yet."}</p>}
        {task.result_path && (
          <p className="small">
            The whole result is the file <code>{safe(task.result_path)}</code> of its session.
          </p>
        )}
      </section>
      {task.artifacts && task.artifacts.length > 0 && (
        <section>
          <h2>Artifacts</h2>
          <ul>
            {task.artifacts.map((a, i) => (
              <li key={i}>
                {oneLine(a.name, 120)} <span className="soft small mono">{oneLine(a.path || a.url || "", 200)}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

// AttemptsPart lists who owned the task, and what each take-over did.
export function AttemptsPart({ task, events }: { task: Task; events: readonly Event[] }) {
  return (
    <>
      <p className="soft small">
        {task.executions === 1 ? "The tool was started once." : `The tool was started ${task.executions} times.`} A process that is followed again after a crash keeps its execution and gets a new attempt.
      </p>
      <div className="tablebox">
        <table>
          <thead>
            <tr>
              <th scope="col">Attempt</th>
              <th scope="col">Began</th>
              <th scope="col">What happened</th>
              <th scope="col">Event</th>
            </tr>
          </thead>
          <tbody>
            {attemptsOf(task, events).map((a) => (
              <tr key={a.n}>
                <td>{a.n}</td>
                <td>{clock(a.began)}</td>
                <td>{safe(a.how)}</td>
                <td>
                  {a.seq !== undefined && (
                    <Link to="/tasks/$id" params={{ id: task.id }} search={{ tab: "events", seq: a.seq }}>
                      seq {a.seq}
                    </Link>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

// EventsPart lists what the journal has of the task. seq is the one that the address names.
export function EventsPart({ events, seq, more, error, onMore }: { events: readonly Event[]; seq?: number; more: boolean; error: unknown; onMore: () => void }) {
  const chosen = useRef<HTMLDetailsElement>(null);
  useEffect(() => chosen.current?.scrollIntoView({ block: "center" }), [seq, events.length]);
  if (error && events.length === 0) return <Failure error={error} />;
  return (
    <>
      <ol className="events">
        {events.map((e) => (
          <li key={e.seq}>
            <details ref={e.seq === seq ? chosen : undefined} open={e.seq === seq} data-chosen={e.seq === seq || undefined}>
              <summary>
                <span className="soft mono">{e.seq}</span> <span className="soft">{clock(e.at)}</span> <strong>{safe(e.type)}</strong> <span className="soft">{oneLine(lineOf(e), 140)}</span>
              </summary>
              <LongText text={pretty(e)} label={`Event ${e.seq}`} />
            </details>
          </li>
        ))}
      </ol>
      {events.length === 0 && <p className="soft">The journal has no events of this task.</p>}
      {more && <Button onPress={onMore}>Read more events</Button>}
    </>
  );
}

function lineOf(e: Event): string {
  const d = (e.data ?? {}) as Record<string, unknown>;
  const some = ["how", "changed", "by", "why", "answer", "outcome", "attempt"].filter((k) => d[k] !== undefined && d[k] !== "").map((k) => `${k} ${typeof d[k] === "object" ? JSON.stringify(d[k]) : String(d[k])}`);
  return [e.actor ? `by ${e.actor}` : "", ...some].filter(Boolean).join(" · ");
}

// ChildrenPart lists what the task started: the session of a subagent, and tasks.
export function ChildrenPart({ task, now }: { task: Task; now: number }) {
  const child = task.links?.child_session_id;
  const read = useQuery({
    queryKey: ["task-children", task.id],
    queryFn: async ({ signal }) => {
      const ask = (session: string) => need(api.GET("/v1/tasks", { signal, params: { query: { session, order: "newest", limit: 200 } } })) as Promise<{ items: Task[] }>;
      const own = (await ask(task.session_id)).items.filter((t) => t.parent_task_id === task.id);
      return child ? [...own, ...(await ask(child)).items] : own;
    },
    refetchInterval: 5000,
  });
  return (
    <>
      {child && (
        <p>
          A subagent does this work:{" "}
          <Link to="/sessions/$id" params={{ id: child }}>
            open its session
          </Link>
        </p>
      )}
      {read.error && !read.data && <Failure error={read.error} onRetry={() => void read.refetch()} />}
      {read.data?.length === 0 && !child && <p className="soft">This task has started no others.</p>}
      <ul className="children">
        {read.data?.map((t) => (
          <li key={t.id}>
            <State look={taskLook(t.state)} />{" "}
            <Link to="/tasks/$id" params={{ id: t.id }}>
              {oneLine(t.display_name || t.tool, 80)}
            </Link>{" "}
            <span className="soft small">{age(t.created_at, now)}</span>
          </li>
        ))}
      </ul>
    </>
  );
}
