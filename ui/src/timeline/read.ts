import { serverNow } from "../app/clock";
import { useInfiniteQuery, useQueries, useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { need } from "../../client";
import { api, stream } from "../app/api";
import { useFrame } from "../app/hooks";
import { readPage } from "../event/journal";
import type { Event, Frame, Session } from "../event/types";
import { ended, Timeline, usedTypes, type Bar, type TurnMark } from "./fold";

const pageSize = 200; // events of one request
const pages = 5; // of one session, at first and with each wish for more
const pagesOfAll = 1; // of each session on the page of all
export const sessionsAtOnce = 20;

export type Drawn = { bars: Bar[]; turns: TurnMark[]; now: number };

// readBack reads the newest events before a seq that make bars, oldest first.
async function readBack(id: string, before: number, most: number, signal: AbortSignal): Promise<{ events: Event[]; from: number }> {
  const events: Event[] = [];
  let from = before;
  for (let n = 0; n < most && from > 1; n++) {
    const page = await readPage(id, { before: String(from), types: usedTypes, limit: pageSize }, signal);
    events.push(...page.items);
    from = page.read_to;
  }
  return { events: events.reverse(), from };
}

// draw folds events to bars. What is open lasts until now, which is never before the last event.
function draw(folds: Timeline[], live: boolean): Drawn {
  const last = Math.max(0, ...folds.map((f) => f.end));
  const now = live ? Math.max(last, serverNow()) : last;
  return { bars: ended(folds.flatMap((f) => [...f.bars.values()]), now), turns: folds.flatMap((f) => f.turns), now };
}

// useSessionTimeline reads the newest part of a session, and follows it.
export function useSessionTimeline(id: string) {
  const session = useQuery({ queryKey: ["session", id], queryFn: ({ signal }) => need(api.GET("/v1/sessions/{id}", { signal, params: { path: { id } } })) as Promise<Session> });
  const known = session.data?.last_seq;
  const base = useRef<number>(undefined);
  if (base.current === undefined && known !== undefined) base.current = known;
  const read = useInfiniteQuery({
    queryKey: ["timeline", id, base.current],
    enabled: base.current !== undefined,
    queryFn: ({ pageParam, signal }) => readBack(id, pageParam, pages, signal),
    initialPageParam: (base.current ?? 0) + 1,
    getNextPageParam: (page) => (page.from > 1 ? page.from : undefined),
    staleTime: Infinity,
    gcTime: 0,
  });
  const live = useRef<Event[]>([]);
  const latest = useRef(0);
  const [version, setVersion] = useState(0);
  const redraw = useFrame(() => setVersion((n) => n + 1));
  const started = read.data !== undefined;
  useEffect(() => {
    if (!started) return;
    latest.current = Math.max(latest.current, base.current ?? 0);
    const onFrame = (f: Frame) => {
      const e = f.data as Event;
      if (typeof e?.seq !== "number" || !e.type || e.seq <= latest.current) return;
      latest.current = e.seq;
      live.current.push(e);
      redraw();
    };
    return stream.follow({ name: id, after: () => latest.current, onFrame });
  }, [id, started, redraw]);
  const drawn = useMemo(() => {
    const fold = new Timeline(id);
    for (const page of [...(read.data?.pages ?? [])].reverse()) page.events.forEach((e) => fold.add(e));
    live.current.forEach((e) => fold.add(e));
    return draw([fold], session.data?.state === "active" || (session.data?.open_tasks ?? 0) > 0 || live.current.length > 0);
    // version stands for what the stream added
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [id, read.data, version, session.data]);
  return { session, read, drawn };
}

// useAllTimelines reads the end of the sessions that changed last.
export function useAllTimelines() {
  const sessions = useQuery({
    queryKey: ["sessions", "timeline"],
    queryFn: ({ signal }) => need(api.GET("/v1/sessions", { signal, params: { query: { limit: 100 } } })),
    refetchInterval: 10_000,
  });
  const newest = useMemo(
    () => ((sessions.data?.items ?? []) as Session[]).toSorted((a, b) => Date.parse(b.updated_at) - Date.parse(a.updated_at)).slice(0, sessionsAtOnce),
    [sessions.data],
  );
  const reads = useQueries({
    queries: newest.map((s) => ({
      queryKey: ["timeline of", s.id, s.last_seq],
      queryFn: ({ signal }: { signal: AbortSignal }) => readBack(s.id, s.last_seq + 1, pagesOfAll, signal),
      staleTime: Infinity,
      gcTime: 60_000,
      placeholderData: (before: { events: Event[]; from: number } | undefined) => before,
    })),
    combine: (all) => ({ data: all.map((r) => r.data), pending: all.some((r) => r.isPending), error: all.find((r) => r.error)?.error }),
  });
  const drawn = useMemo(() => {
    const folds = newest.map((s, i) => {
      const fold = new Timeline(s.id);
      fold.agent = s.agent.name ?? "";
      reads.data[i]?.events.forEach((e) => fold.add(e));
      return fold;
    });
    return draw(folds, newest.some((s) => s.state === "active" || s.open_tasks > 0));
  }, [newest, reads.data]);
  return { sessions, newest, reads, drawn };
}
