import { Link, getRouteApi } from "@tanstack/react-router";
import { useQuery } from "@tanstack/react-query";
import { need, RequestFailed } from "../../client";
import { api } from "../app/api";
import { useNow, useTitle } from "../app/hooks";
import { State } from "../app/icon";
import { NotFound } from "../app/notfound";
import { Failure } from "../app/pieces";
import { standingLook, standingWords, subjectWords, type Standing } from "../cost/money";
import { LongText } from "../session/details";
import { age, duration, oneLine, pretty, safe } from "../text/text";
import { Actions } from "./actions";
import { Fires, Last } from "./fires";
import { missedWords, overlapWords, scheduleLook, times, type Schedule } from "./look";
import { NextFires } from "./next";
import { useNextFires, useSchedule } from "./read";
import { inZone, until } from "./when";
import "../task/task.css";
import "./schedule.css";

const route = getRouteApi("/schedules/$id");
const shown = 10; // next fires

export function SchedulePage() {
  const { id } = route.useParams();
  const read = useSchedule(id);
  useTitle(read.data ? oneLine(read.data.title || "Schedule", 60) : "Schedule");
  if (read.error instanceof RequestFailed && (read.error.status === 404 || read.error.status === 400)) return <NotFound what="schedule" id={id} />;
  if (!read.data) return <div className="center">{read.error ? <Failure error={read.error} onRetry={() => void read.refetch()} /> : <p role="status">Loading…</p>}</div>;
  return <ScheduleView key={id} s={read.data} />;
}

function ScheduleView({ s }: { s: Schedule }) {
  const next = useNextFires(s, shown);
  return (
    <>
      <header className="head">
        <h1 dir="auto">{safe(s.title || "Schedule without a title")}</h1>
        <span className="row-of" data-testid="schedule-state">
          <State look={scheduleLook(s)} />
        </span>
        <span className="grow soft small">{times(s) === "once" ? "" : times(s)}</span>
        <Actions s={s} />
      </header>
      <div className="scroll">
        <div className="schedule-page">
          {!s.enabled && s.paused_why && (
            <p className="notice untrusted" role="status">
              It does not fire: {oneLine(s.paused_why, 400)}. Times that pass meanwhile are not made up.
            </p>
          )}
          <section className="facts-of" aria-label="About this schedule">
            <Facts s={s} />
          </section>
          <section aria-labelledby="next-title">
            <h2 id="next-title">{s.enabled ? `Next ${shown} fires` : `Next ${shown} fires, if it were on`}</h2>
            {next.error && !next.data ? <Failure error={next.error} onRetry={() => void next.refetch()} /> : <NextFires fires={next.data?.items} zone={s.timezone} />}
          </section>
          <section aria-labelledby="past-title" className="past">
            <h2 id="past-title">Past fires</h2>
            <Fires s={s} />
          </section>
        </div>
      </div>
    </>
  );
}

function Facts({ s }: { s: Schedule }) {
  const now = useNow(1000);
  const window = s.missed === "all" ? `, of the last ${duration(s.missed_window_ns / 1e6)}` : "";
  const facts: [string, React.ReactNode][] = [
    ["Next fire", s.next_trigger_at ? `${until(s.next_trigger_at, now)} · ${inZone(s.next_trigger_at, s.timezone)}` : "none"],
    ["Last fire", <span className="row-of" key="last"><Last s={s} /> {age(s.last_triggered_at, now)} {s.trigger_count > 0 && <span className="soft">{s.trigger_count} so far</span>}</span>],
    ["Expression", s.cron_expression ? <code key="cron">{oneLine(s.cron_expression, 200)}</code> : s.scheduled_at ? inZone(s.scheduled_at, s.timezone) : ""],
    ["Time zone", s.timezone],
    ["While one runs", overlapWords[s.overlap] ?? s.overlap],
    ["Missed times", (missedWords[s.missed] ?? s.missed) + window],
    ["Delay", s.jitter_ns ? `up to ${duration(s.jitter_ns / 1e6)}, at random` : ""],
    ["Session", <SessionOf key="session" id={s.session_id} />],
    ["Budgets", <Budgets key="budgets" id={s.session_id} />],
    ["Monitor", s.monitor_task_id ? <Link key="monitor" to="/tasks/$id" params={{ id: s.monitor_task_id }}>{s.monitor_task_id}</Link> : ""],
    ["Created", `${age(s.created_at, now)}${s.owner ? ` by ${oneLine(s.owner, 60)}` : ""}`],
  ];
  return (
    <>
      <dl className="facts">
        {facts.filter(([, value]) => value !== "").map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <h2>{s.action.tool ? `Each fire runs ${oneLine(s.action.tool, 80)} with` : "Each fire sends"}</h2>
      <LongText text={s.action.tool ? pretty(s.action.args ?? {}) : safe(s.action.message ?? "")} label={s.action.tool ? "Arguments" : "Message"} />
      {s.action.tool && <p className="soft small">{!s.action.signal_on_completion ? "The session receives no results." : s.action.deliver === "changes" ? "The session receives failures, and results that differ from the previous one." : "The session receives every result."}</p>}
      {s.description && <p className="soft small untrusted">{safe(s.description)}</p>}
    </>
  );
}

function SessionOf({ id }: { id: string }) {
  const { data } = useQuery({ queryKey: ["schedule session", id], queryFn: ({ signal }) => need(api.GET("/v1/sessions/{id}", { signal, params: { path: { id } } })), retry: false });
  return (
    <Link to="/sessions/$id" params={{ id }}>
      {oneLine(data?.title || id, 80)}
    </Link>
  );
}

// Budgets shows the budgets that a fire is charged to.
function Budgets({ id }: { id: string }) {
  const read = useQuery({ queryKey: ["budgets", id], queryFn: ({ signal }) => need(api.GET("/v1/sessions/{id}/budgets", { signal, params: { path: { id } } })) });
  if (read.error) return <span className="tone-bad">{oneLine(read.error.message, 120)}</span>;
  const all = (read.data?.budgets ?? []) as Standing[];
  if (all.length === 0) return <span className="soft">{read.data ? "none: nothing limits what its fires spend" : "…"}</span>;
  return (
    <ul className="plain">
      {all.map((b) => (
        <li key={b.id} className="row-of">
          <State look={standingLook(b.state)} />
          <Link to="/costs" search={{ budget: b.id }}>
            {standingWords(b)}
          </Link>
          <span className="soft">{b.scope === "session" && b.subject === id ? "of its session" : `of ${subjectWords(b)}`}</span>
        </li>
      ))}
    </ul>
  );
}
