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
const end = Number.MAX_SAFE_INTEGER; // a seq that no journal reaches
const pagesOfAll = 1; // of each session on the page of all
export const sessionsAtOnce = 20;

export type Drawn = { bars: Bar[]; turns: TurnMark[]; now: number };

type Part = { events: Event[]; from: number; last: number };

// readBack reads the newest events before a seq that make bars, oldest first. last is the last seq of the
// journal when the first of them was read.
async function readBack(id: string, before: number, most: number, signal: AbortSignal): Promise<Part> {
  const events: Event[] = [];
  let from = before;
  let last = 0;
  for (let n = 0; n < most && from > 1; n++) {
    const page = await readPage(id, { before: String(from), types: usedTypes, limit: pageSize }, signal);
    events.push(...page.items);
    from = page.read_to;
    last ||= page.last_seq;
  }
  return { events: events.reverse(), from, last };
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
  // The newest events are drawn as soon as they are there, the ones before follow.
  const read = useInfiniteQuery({
    queryKey: ["timeline", id],
    queryFn: ({ pageParam, signal }) => readBack(id, pageParam.before, pageParam.most, signal),
    initialPageParam: { before: end, most: 1 },
    getNextPageParam: (page, all) => (page.from > 1 ? { before: page.from, most: all.length === 1 ? pages - 1 : pages } : undefined),
    staleTime: Infinity,
    gcTime: 0,
  });
  const { fetchNextPage } = read;
  const more = read.data?.pages.length === 1 && read.hasNextPage;
  useEffect(() => void (more && fetchNextPage()), [more, fetchNextPage]);
  const live = useRef<Event[]>([]);
  const latest = useRef(0);
  const [version, setVersion] = useState(0);
  const redraw = useFrame(() => setVersion((n) => n + 1));
  const base = read.data?.pages[0]?.last;
  useEffect(() => {
    if (base === undefined) return;
    latest.current = Math.max(latest.current, base);
    const onFrame = (f: Frame) => {
      const e = f.data as Event;
      if (typeof e?.seq !== "number" || !e.type || e.seq <= latest.current) return;
      latest.current = e.seq;
      live.current.push(e);
      redraw();
    };
    return stream.follow({ name: id, after: () => latest.current, onFrame });
  }, [id, base, redraw]);
  const fold = useMemo(() => {
    const fresh = new Timeline(id);
    for (const page of [...(read.data?.pages ?? [])].reverse()) page.events.forEach((e) => fresh.add(e));
    return fresh;
  }, [id, read.data]);
  const drawn = useMemo(() => {
    live.current.forEach((e) => fold.add(e)); // which leaves out what it has
    return draw([fold], session.data?.state === "active" || (session.data?.open_tasks ?? 0) > 0 || live.current.length > 0);
    // version stands for what the stream added
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [fold, version, session.data]);
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
      placeholderData: (before: Part | undefined) => before,
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
