import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef } from "react";
import { need, type Schemas } from "../../client";
import { api, queries } from "../app/api";
import { serverNow } from "../app/clock";
import { usePaused } from "../app/hooks";
import type { Task } from "../event/types";
import { matches, tabOf, tabQuery, type Filter, type Tab } from "./filter";
import { useOpenTasks } from "./live";

const liveLimit = 200; // of the list in the stream: below it the list is complete
const beatReadMs = 4000; // how often heartbeats are read, which the stream leaves out

export type Overview = Schemas["TaskOverview"];

// useOverview returns the numbers of tasks by state. It is read again, at most every two seconds, when
// the stream reports a change.
export function useOverview(): Overview | undefined {
  const open = useOpenTasks();
  const { data } = useQuery({ queryKey: ["task-counts"], queryFn: ({ signal }) => need(api.GET("/v1/tasks:count", { signal })) as Promise<Overview>, staleTime: 5000 });
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

type Read = { items: Task[]; next?: string; readAt: number };

// useTaskRows joins the pages of a tab with what the stream said since, the newest task first.
export function useTaskRows(tab: Tab, filter: Filter, total: number | undefined) {
  const open = useOpenTasks();
  const paused = usePaused();
  const ask = { ...tabQuery[tab], ...(filter.tool ? { tool: filter.tool } : {}), ...(filter.older ? { older: filter.older } : {}) };
  const pages = useInfiniteQuery({
    queryKey: ["tasks", tab, ask],
    queryFn: async ({ pageParam, signal }): Promise<Read> => {
      const page = (await need(api.GET("/v1/tasks", { signal, params: { query: { ...ask, order: "newest", limit: 100, ...(pageParam ? { cursor: pageParam } : {}) } } }))) as { items: Task[]; next?: string };
      return { ...page, readAt: serverNow() };
    },
    initialPageParam: "",
    getNextPageParam: (last) => last.next || undefined,
    refetchInterval: (q) => (tab === "working" && !paused && (q.state.data?.pages.length ?? 0) <= 2 ? beatReadMs : false),
    placeholderData: keepPreviousData,
  });
  const { refetch } = pages;
  const before = useRef(total);
  useEffect(() => {
    if (before.current !== undefined && before.current !== total) void refetch();
    before.current = total;
  }, [total, refetch]);

  const rows = useMemo(() => {
    const all = new Map<string, Task>();
    pages.data?.pages.forEach((p) => p.items.forEach((t) => all.set(t.id, t)));
    const live = new Map(open.map((t) => [t.id, t]));
    const complete = open.length > 0 && open.length < liveLimit;
    for (const [id, t] of all) {
      const now = live.get(id);
      if (now) all.set(id, { ...now, heartbeat_at: t.heartbeat_at });
      else if (complete && (tab === "working" || tab === "needs-you" || tab === "scheduled")) all.delete(id);
    }
    live.forEach((t, id) => !all.has(id) && all.set(id, t));
    const now = serverNow();
    return [...all.values()]
      .filter((t) => tabOf(t) === tab && matches(filter, t, now))
      .sort((a, b) => Date.parse(b.created_at) - Date.parse(a.created_at) || (a.id < b.id ? 1 : -1));
  }, [pages.data, open, tab, filter]);
  return { pages, rows, readAt: pages.data?.pages[0]?.readAt ?? 0 };
}
