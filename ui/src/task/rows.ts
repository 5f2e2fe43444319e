import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef } from "react";
import { need, RequestFailed, type Schemas } from "../../client";
import { api, queries } from "../app/api";
import { serverNow } from "../app/clock";
import { usePaused } from "../app/hooks";
import type { Task } from "../event/types";
import { matches, tabOf, tabQuery, type Filter, type Tab } from "./filter";
import { liveRows, useOpenTasks } from "./live";
import { newestFirst, toRead, withPage, type Page, type Pages, type Row } from "./pages";

const readMs = 2000; // how often the rows in view are read: the stream has the newest ones alone, and no heartbeats
const countMs = 4000; // how often the counts are read, at most twice as often when the stream reports a change

export type Overview = Schemas["TaskOverview"];

// useOverview returns the numbers of tasks by state. It is read again, at most every two seconds, when
// the stream reports a change, and otherwise now and then: the stream has the newest tasks alone.
export function useOverview(): Overview | undefined {
  const open = useOpenTasks();
  const paused = usePaused();
  const { data } = useQuery({ queryKey: ["task-counts"], queryFn: ({ signal }) => need(api.GET("/v1/tasks:count", { signal })) as Promise<Overview>, staleTime: 5000, refetchInterval: paused ? false : countMs });
  const pending = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    pending.current ??= setTimeout(() => {
      pending.current = undefined;
      void queries.invalidateQueries({ queryKey: ["task-counts"] });
    }, 1500);
  }, [open]);
  useEffect(() => () => clearTimeout(pending.current), []);
  return data;
}

// tabCounts returns the number of tasks in each tab.
export function tabCounts(o: Overview | undefined, approvals: number): Partial<Record<Tab, number>> {
  if (!o) return {};
  const n = (s: string) => o.states[s] ?? 0;
  const monitors = (o.monitors["queued"] ?? 0) + (o.monitors["running"] ?? 0);
  return {
    "needs-you": n("awaiting_input") + approvals,
    working: n("queued") + n("running") - monitors,
    scheduled: monitors,
    done: n("succeeded") + n("canceled"),
    failed: n("failed") + n("unknown"),
  };
}

// useTaskRows joins the pages of a tab with what the stream said since, the newest task first. Of the pages,
// only those with the rows in view are read again.
export function useTaskRows(tab: Tab, filter: Filter, total: number | undefined) {
  const open = useOpenTasks();
  const ask = useMemo(() => ({ ...tabQuery[tab], ...(filter.tool ? { tool: filter.tool } : {}), ...(filter.older ? { older: filter.older } : {}) }), [tab, filter]);
  const queryKey = useMemo(() => ["task-pages", tab, ask], [tab, ask]);
  const pages = useInfiniteQuery<Page, Error, Pages, unknown[], string>({
    queryKey,
    queryFn: ({ pageParam, signal }) => readPage(ask, pageParam, signal),
    initialPageParam: "",
    getNextPageParam: (last) => last.next || undefined,
    staleTime: Infinity,
    structuralSharing: false,
    placeholderData: keepPreviousData,
  });
  const { data } = pages;
  const setView = useReread(tab, ask, queryKey, total);

  const rows = useMemo(() => {
    const all = new Map<string, Row>();
    data?.pages.forEach((p) => p.items.forEach((t) => all.set(t.id, t)));
    const live = new Map(open.map((t) => [t.id, t]));
    const complete = open.length > 0 && open.length < liveRows;
    for (const [id, t] of all) {
      const now = live.get(id);
      if (now && Date.parse(now.updated_at) > Date.parse(t.updated_at)) all.set(id, { ...now, heartbeat_at: t.heartbeat_at, readAt: t.readAt });
      else if (!now && complete && (tab === "working" || tab === "needs-you" || tab === "scheduled")) all.delete(id);
    }
    live.forEach((t, id) => !all.has(id) && all.set(id, { ...t, readAt: 0 }));
    const now = serverNow();
    return [...all.values()].filter((t) => tabOf(t) === tab && matches(filter, t, now)).sort(newestFirst);
  }, [data, open, tab, filter]);
  return { pages, rows, setView };
}

type Ask = { state: string; kind?: string; tool?: string; older?: string };

async function readPage(ask: Ask, cursor: string, signal: AbortSignal): Promise<Page> {
  const page = (await need(api.GET("/v1/tasks", { signal, params: { query: { ...ask, order: "newest", limit: 100, ...(cursor ? { cursor } : {}) } } }))) as { items: Task[]; next?: string };
  const readAt = serverNow();
  return { ...page, items: page.items.map((t) => ({ ...t, readAt })), readAt };
}

// useReread reads the pages with the rows in view again: of running tasks all the time, else when the number
// of tasks has changed or other rows come into view. It returns how to say which rows are in view.
function useReread(tab: Tab, ask: Ask, queryKey: unknown[], total: number | undefined) {
  const paused = usePaused();
  const view = useRef<readonly string[]>([]);
  const changedAt = useRef(0);
  const { refetch } = useQuery({
    queryKey: ["tasks", "view", ...queryKey],
    queryFn: async ({ signal }) => {
      const known = queries.getQueryData<Pages>(queryKey);
      for (const cursor of known ? toRead(known, view.current, Math.max(changedAt.current, serverNow() - readMs / 2)) : []) await reread(ask, queryKey, cursor, signal);
      return null;
    },
    enabled: !paused,
    refetchInterval: tab === "working" ? readMs : false,
    gcTime: 0,
  });
  const before = useRef(total);
  useEffect(() => {
    if (before.current !== undefined && before.current !== total && !paused) {
      changedAt.current = serverNow();
      void refetch();
    }
    before.current = total;
  }, [total, paused, refetch]);
  return useCallback(
    (ids: readonly string[]) => {
      view.current = ids;
      if (!paused) void refetch();
    },
    [paused, refetch],
  );
}

// reread reads one page again. If its cursor is no longer known, the list begins anew.
async function reread(ask: Ask, queryKey: unknown[], cursor: string, signal: AbortSignal) {
  try {
    const fresh = await readPage(ask, cursor, signal);
    // a page that is being added would bring the pages before it back as they were
    if (queries.isFetching({ queryKey }) === 0) queries.setQueryData<Pages>(queryKey, (all) => all && withPage(all, cursor, fresh));
  } catch (err) {
    if (!(err instanceof RequestFailed && err.status === 400)) throw err;
    void queries.resetQueries({ queryKey });
  }
}
