import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { need, RequestFailed, type Schemas } from "../../client";
import { api } from "../app/api";
import { CopyLine, Failure } from "../app/pieces";
import { oneLine, plural, safe } from "../text/text";
import { filterOf } from "./filter";
import { readPage } from "./journal";
import { Json } from "./json";
import { timeOf } from "./rows";
import { Same, type Place } from "./same";
import { sentence } from "./sentence";
import { toneOf } from "./tone";
import type { Event } from "./types";

// Detail shows one event, what it changed, and its neighbours.
export function Detail({ place, seq }: { place: Place; seq: number }) {
  const { id, search, top } = place;
  const one = useQuery({
    queryKey: ["event", id, seq],
    queryFn: ({ signal }) => need(api.GET("/v1/sessions/{id}/events/{seq}", { signal, params: { path: { id, seq } } })) as Promise<Schemas["EventState"]>,
    staleTime: Infinity,
  });
  // the event itself is there at once; the state takes the fold of all that came before
  const raw = useQuery({ queryKey: ["event alone", id, seq], queryFn: async ({ signal }) => (await readPage(id, { after: String(seq - 1), limit: 1 }, signal)).items[0] ?? null, staleTime: Infinity, enabled: seq <= top });
  const gone = one.error instanceof RequestFailed && (one.error.status === 404 || one.error.status === 400);
  const shown = one.data;
  const event = (raw.data ?? shown?.event) as Event | undefined;
  return (
    <aside className="inspector" aria-label={`Event ${seq}`} data-testid="event" data-seq={event?.seq}>
      <div className="row-of bar">
        <Link to="/sessions/$id/events" params={{ id }} search={filterOf(search)} className="back">
          ← All events
        </Link>
        <span className="grow" />
        <Step place={place} to={seq - 1} word="‹ Previous" />
        <Step place={place} to={seq + 1} word="Next ›" />
      </div>
      <Scrub place={place} seq={seq} />
      {gone ? (
        <p className="notice">
          This session has no event {seq}. Its last event is {top}.
        </p>
      ) : one.error ? (
        <Failure error={one.error} onRetry={() => void one.refetch()} />
      ) : null}
      {!gone && event && (
        <>
          <h2>
            #{event.seq} <span className={`tone-${toneOf(event)}`}>{safe(event.type)}</span>
          </h2>
          <p dir="auto">{sentence(event)}</p>
          <p className="small soft">
            <time dateTime={event.at}>{timeOf(event.at)}</time>
            {event.actor && ` · by ${oneLine(event.actor, 60)}`}
          </p>
          {shown ? (
            <State shown={shown} />
          ) : (
            one.isPending && (
              <p className="small soft" role="status">
                Computing the state before and after…
              </p>
            )
          )}
          <Same place={place} event={event} />
          <section>
            <h3>Event</h3>
            <Json value={event} label={`Event ${event.seq} as JSON`} key={event.seq} />
          </section>
          <CopyLine text={`perdure event show ${id} ${event.seq}`} />
        </>
      )}
      {!event && !one.error && <p role="status">Reading…</p>}
    </aside>
  );
}

// Step leads to a neighbour, where there is one.
function Step({ place, to, word }: { place: Place; to: number; word: string }) {
  if (to < 1 || to > place.top) return <span className="soft small">{word}</span>;
  return (
    <Link to="/sessions/$id/events" params={{ id: place.id }} search={{ ...place.search, seq: to }} replace className="small">
      {word}
    </Link>
  );
}

// Scrub moves through the journal. It reads only.
function Scrub({ place, seq }: { place: Place; seq: number }) {
  const [at, setAt] = useState(seq);
  const navigate = useNavigate();
  useEffect(() => setAt(seq), [seq]);
  useEffect(() => {
    if (at === seq) return;
    const timer = setTimeout(() => void navigate({ to: "/sessions/$id/events", params: { id: place.id }, search: { ...place.search, seq: at }, replace: true }), 150);
    return () => clearTimeout(timer);
  }, [at, seq, place, navigate]);
  return (
    <label className="scrub small soft">
      <span>
        Replay to event {at.toLocaleString()} of {place.top.toLocaleString()}; nothing runs again
      </span>
      <input type="range" min={1} max={Math.max(1, place.top)} value={at} onChange={(e) => setAt(Number(e.target.value))} />
    </label>
  );
}

function State({ shown }: { shown: Schemas["EventState"] }) {
  const { after } = shown;
  const changes = shown.changes ?? [];
  return (
    <section>
      <h3>State before and after</h3>
      {changes.length === 0 ? (
        <p className="small soft">This event changed nothing that the state shows.</p>
      ) : (
        <table className="changes">
          <thead>
            <tr>
              <th scope="col">What</th>
              <th scope="col">Before</th>
              <th scope="col">After</th>
            </tr>
          </thead>
          <tbody>
            {changes.map((c) => (
              <tr key={`${c.what} ${c.id}`}>
                <th scope="row">
                  {c.what}
                  {c.id && <small className="mono">{oneLine(c.id, 60)}</small>}
                </th>
                <td dir="auto">{oneLine(c.before, 120) || <span className="soft">none</span>}</td>
                <td dir="auto">{oneLine(c.after, 120) || <span className="soft">none</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <p className="small soft">
        After it: {after.state.replaceAll("_", " ")} · {plural(after.messages, "message")} · {plural(after.live_tasks, "live task")}
        {after.open_approvals > 0 && ` · ${plural(after.open_approvals, "open approval")}`}
        {after.unknown > 0 && ` · ${after.unknown} unknown`}
      </p>
    </section>
  );
}
