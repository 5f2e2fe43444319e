import { useInfiniteQuery, useQueries, useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { need } from "../../client";
import { api, stream } from "../app/api";
import { useFrame } from "../app/hooks";
import { filterOf, isFiltered, type EventSearch, type Filter } from "./filter";
import type { Event, Frame, Session } from "./types";

export const pageSize = 100; // events of one request
const keptLive = 2000; // events of the stream, before pages are read again
const emptyRun = 20; // pages without a selected event that are read without being asked

export type Page = { items: Event[]; last_seq: number; read_to: number };

// readPage reads one page of events.
export function readPage(id: string, query: Record<string, string | number | undefined>, signal?: AbortSignal): Promise<Page> {
  return need(api.GET("/v1/sessions/{id}/events", { signal, params: { path: { id }, query: query as never }, headers: { Accept: "application/json" } })) as Promise<Page>;
}

// useLastSeq returns the session, how far the journal was when the page began (base), and how far it is
// now (top), with the events since. renew begins again from now.
export function useLastSeq(id: string) {
  const session = useQuery({
    queryKey: ["session", id],
    queryFn: ({ signal }) => need(api.GET("/v1/sessions/{id}", { signal, params: { path: { id } } })) as Promise<Session>,
  });
  const [base, setBase] = useState<number>();
  const [top, setTop] = useState(0);
  const live = useRef(new Map<number, Event>());
  const latest = useRef(0);
  const known = session.data?.last_seq;
  const draw = useFrame(() => setTop(latest.current));
  useEffect(() => {
    if (known === undefined || base !== undefined) return;
    latest.current = Math.max(latest.current, known);
    setBase(known);
    setTop(latest.current);
  }, [known, base]);
  const started = base !== undefined;
  useEffect(() => {
    if (!started) return;
    const onFrame = (f: Frame) => {
      const e = f.data as Event;
      if (typeof e?.seq !== "number" || !e.type || e.seq <= latest.current) return;
      latest.current = e.seq;
      live.current.set(e.seq, e);
      if (live.current.size > keptLive) {
        live.current.clear();
        setBase(e.seq);
      }
      draw();
    };
    return stream.follow({ name: id, after: () => latest.current, onFrame });
  }, [id, started, draw]);
  const renew = useCallback(() => setBase((known) => (known === undefined ? known : latest.current)), []);
  return { session, base, top, live: live.current, renew };
}

// Rows are the events of a list, newest first. need says which of them are in view.
export type Rows = {
  count: number;
  at: (index: number) => Event | undefined;
  indexOf: (seq: number) => number;
  seqOf: (index: number) => number | undefined;
  loading: boolean;
  error: unknown;
  retry: () => void;
  more: (() => void) | undefined; // reads on, where that is not done by itself
  readTo: number;
};

// useRows returns all events of a journal, of which only those in view are read, or those that a filter
// selects, from the newest to as far as the reader scrolls.
export function useRows(id: string, search: EventSearch, j: ReturnType<typeof useLastSeq>, top: number, view: [number, number]): Rows {
  const filter = filterOf(search);
  const filtered = isFiltered(filter);
  const all = useAll(id, j, top, filtered ? undefined : view);
  const some = useSelected(id, filter, j.base, filtered, view[1]);
  return filtered ? some : all;
}

function useAll(id: string, j: ReturnType<typeof useLastSeq>, top: number, view: [number, number] | undefined): Rows {
  const base = j.base ?? 0;
  const wanted: number[] = [];
  if (view && base > 0) {
    const high = Math.min(base, top - view[0]);
    const low = Math.max(1, top - view[1]);
    for (let p = Math.floor((low - 1) / pageSize); p <= Math.floor((high - 1) / pageSize); p++) wanted.push(p);
  }
  const pages = useQueries({
    queries: wanted.map((p) => ({
      queryKey: ["event page", id, p, Math.min(base, (p + 1) * pageSize)],
      queryFn: ({ signal }: { signal: AbortSignal }) => readPage(id, { after: String(p * pageSize), limit: pageSize }, signal),
      staleTime: Infinity,
      gcTime: 60_000,
    })),
  });
  const read = new Map<number, Event>();
  pages.forEach((p) => p.data?.items.forEach((e) => read.set(e.seq, e)));
  const at = (i: number) => j.live.get(top - i) ?? read.get(top - i);
  return {
    count: top,
    at,
    seqOf: (i) => top - i,
    indexOf: (seq) => (seq <= top ? top - seq : -1),
    loading: j.base === undefined,
    error: pages.find((p) => p.error)?.error,
    retry: () => pages.forEach((p) => p.error && void p.refetch()),
    more: undefined,
    readTo: 1,
  };
}

function useSelected(id: string, filter: Filter, base: number | undefined, enabled: boolean, last: number): Rows {
  const pages = useInfiniteQuery({
    queryKey: ["event filter", id, filter, base],
    enabled: enabled && base !== undefined,
    queryFn: ({ pageParam, signal }) => readPage(id, { ...filter, before: String(pageParam), limit: pageSize }, signal),
    initialPageParam: (base ?? 0) + 1,
    getNextPageParam: (page) => (page.read_to > 1 ? page.read_to : undefined),
    staleTime: Infinity,
    gcTime: 60_000,
  });
  const rows = useMemo(() => pages.data?.pages.flatMap((p) => p.items) ?? [], [pages.data]);
  const index = useMemo(() => new Map(rows.map((e, i) => [e.seq, i])), [rows]);
  const { hasNextPage, isFetchingNextPage, fetchNextPage, error } = pages;
  const got = pages.data?.pages ?? [];
  const empty = got.length - 1 - got.findLastIndex((p) => p.items.length > 0);
  const byItself = empty < emptyRun && !error;
  const near = last >= rows.length - 20;
  useEffect(() => {
    if (enabled && byItself && near && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [enabled, byItself, near, hasNextPage, isFetchingNextPage, fetchNextPage]);
  return {
    count: rows.length,
    at: (i) => rows[i],
    seqOf: (i) => rows[i]?.seq,
    indexOf: (seq) => index.get(seq) ?? -1,
    loading: pages.isPending || isFetchingNextPage,
    error,
    retry: () => void (rows.length > 0 ? fetchNextPage() : pages.refetch()),
    more: hasNextPage && !byItself && !isFetchingNextPage ? () => void fetchNextPage() : undefined,
    readTo: got.at(-1)?.read_to ?? (base ?? 0) + 1,
  };
}
