import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef } from "react";
import { need, type Schemas } from "../../client";
import { api, queries } from "../app/api";
import { serverNow } from "../app/clock";
import { usePaused } from "../app/hooks";
import { liveRows } from "../event/list";
import type { Task } from "../event/types";
import { usePagedList, type List } from "../list/paged";
import { newestFirst, type Row } from "../list/pages";
import { matches, tabOf, tabQuery, type Filter, type Tab } from "./filter";
import { useOpenTasks } from "./live";

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
// only those with the rows in view are read again: of running tasks all the time, else when the number of
// tasks has changed or other rows come into view.
export function useTaskRows(tab: Tab, filter: Filter, total: number | undefined) {
  const open = useOpenTasks();
  const list = useMemo(() => taskList(tab, filter), [tab, filter]);
  const { pages, setView } = usePagedList(list, { everyMs: tab === "working" ? readMs : false, total });
  const { data } = pages;

  const rows = useMemo(() => {
    const all = new Map<string, Row<Task>>();
    data?.pages.forEach((p) => p.items.forEach((t) => all.set(t.id, t)));
    const live = new Map(open.map((t) => [t.id, t]));
    const complete = open.length > 0 && open.length < liveRows;
    for (const [id, t] of all) {
      const now = live.get(id);
      if (now && Date.parse(now.updated_at) > Date.parse(t.updated_at)) all.set(id, { ...now, heartbeat_at: t.heartbeat_at, cost: t.cost, readAt: t.readAt });
      else if (!now && complete && (tab === "working" || tab === "needs-you" || tab === "scheduled")) all.delete(id);
    }
    live.forEach((t, id) => !all.has(id) && all.set(id, { ...t, readAt: 0 }));
    const now = serverNow();
    return [...all.values()].filter((t) => tabOf(t) === tab && matches(filter, t, now)).sort(newestFirst);
  }, [data, open, tab, filter]);
  return { pages, rows, setView };
}

// taskList is the list of a tab.
function taskList(tab: Tab, filter: Filter): List<Task> {
  const ask = { ...tabQuery[tab], ...(filter.tool ? { tool: filter.tool } : {}), ...(filter.older ? { older: filter.older } : {}) };
  return {
    key: ["task-pages", tab, ask],
    read: (cursor, signal) => need(api.GET("/v1/tasks", { signal, params: { query: { ...ask, order: "newest", limit: 100, ...(cursor ? { cursor } : {}) } } })) as Promise<{ items: Task[]; next?: string }>,
    order: newestFirst,
  };
}
