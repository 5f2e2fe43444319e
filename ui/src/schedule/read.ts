import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { need, type Schemas } from "../../client";
import { api, queries } from "../app/api";
import { useConnection } from "../app/hooks";
import { useLiveList } from "../event/list";
import { turnResult, type Fire, type Result, type Schedule } from "./look";

export const slow = 30_000; // between two reads of what the stream does not have
const liveRows = 200; // schedules that the stream sends at most, the newest ones

// useFollow reads a query again when the stream has a change of a schedule, or of any. It returns how
// often the query has to be read without one: not at all, as long as the stream has all schedules.
function useFollow(queryKey: string[], id?: string): number | false {
  const rows = useLiveList<Schedule>("schedules");
  const seen = id === undefined ? rows : rows.get(id);
  const known = useRef(seen);
  useEffect(() => {
    if (known.current === seen) return;
    known.current = seen;
    void queries.invalidateQueries({ queryKey, exact: true });
  });
  const { state } = useConnection();
  return state === "paused" || (state === "live" && rows.size < liveRows) ? false : slow;
}

// useSchedules reads the schedules, page by page.
export function useSchedules() {
  const every = useFollow(["schedules"]);
  return useInfiniteQuery({
    queryKey: ["schedules"],
    queryFn: ({ pageParam, signal }) => need(api.GET("/v1/schedules", { signal, params: { query: { limit: 200, ...(pageParam ? { cursor: pageParam } : {}) } } })),
    initialPageParam: "",
    getNextPageParam: (last) => last.next || undefined,
    refetchInterval: every,
  });
}

export function useSchedule(id: string) {
  const every = useFollow(["schedule", id], id);
  return useQuery({
    queryKey: ["schedule", id],
    queryFn: ({ signal }) => need<Schedule>(api.GET("/v1/schedules/{id}", { signal, params: { path: { id } } })),
    refetchInterval: (q) => (q.state.error ? false : every),
  });
}

// useNextFires reads the next fires of a schedule; they are read again when the schedule changes.
export function useNextFires(s: Schedule, n: number) {
  return useQuery({
    queryKey: ["schedule", s.id, "next", s.next_nominal_at ?? "", s.enabled, n],
    queryFn: ({ signal }) => need(api.GET("/v1/schedules/{id}/next", { signal, params: { path: { id: s.id }, query: { n } } })),
    placeholderData: (before) => before,
  });
}

export function useFires(id: string) {
  const every = useFollow(["schedule", id, "fires"], id);
  return useInfiniteQuery({
    queryKey: ["schedule", id, "fires"],
    queryFn: ({ pageParam, signal }) => need(api.GET("/v1/schedules/{id}/fires", { signal, params: { path: { id }, query: { limit: 20, ...(pageParam ? { cursor: pageParam } : {}) } } })),
    initialPageParam: "",
    getNextPageParam: (last) => last.next || undefined,
    refetchInterval: every,
  });
}

// useLastFire reads the latest fire of a schedule. It is read again when the schedule has changed.
export function useLastFire(s: Schedule, enabled: boolean): Fire | undefined {
  const { data } = useQuery({
    queryKey: ["schedule", s.id, "last", s.last_triggered_at ?? "", s.decided_until ?? "", s.trigger_count],
    enabled,
    queryFn: ({ signal }) => need(api.GET("/v1/schedules/{id}/fires", { signal, params: { path: { id: s.id }, query: { limit: 1 } } })),
    staleTime: 60_000,
    placeholderData: (before) => before,
  });
  return data?.items[0];
}

// useResult reads how the work of a fire ended: that of its task, or of the turn of its message.
export function useResult(f: Fire | undefined): Result {
  const { data } = useQuery({
    queryKey: ["fire", f?.schedule_id, f?.nominal_at, f?.task_id ?? f?.message_id ?? ""],
    enabled: f?.outcome === "fired" && !!(f.task_id || f.message_id),
    queryFn: async ({ signal }): Promise<Result> => {
      if (!f) return undefined;
      if (f.task_id) return (await need(api.GET("/v1/tasks/{id}", { signal, params: { path: { id: f.task_id } } }))).state as Result;
      const page = await need<{ items: Schemas["Event"][] }>(
        api.GET("/v1/sessions/{id}/events", {
          signal,
          params: { path: { id: f.session_id }, query: { after: f.seq ?? 0, limit: 200, types: "turn.started,turn.completed,turn.failed,turn.canceled,turn.sealed,reason.started" } },
          headers: { Accept: "application/json" },
        } as never),
      );
      return turnResult(page.items, f.message_id!);
    },
    refetchInterval: (q) => (q.state.data === undefined || ["running", "queued", "awaiting_input"].includes(q.state.data) ? 2000 : false),
    retry: false,
  });
  return data;
}

// changed reads a schedule, and the lists that contain it, again.
export function changed(id?: string) {
  return Promise.all([queries.invalidateQueries({ queryKey: ["schedules"] }), id ? queries.invalidateQueries({ queryKey: ["schedule", id] }) : undefined]);
}

const mostOften = 2000; // between two reads of the budgets because sessions changed
const rarely = 15_000; // between two reads without a change: of other persons, and at the end of a period

// useBudgets reads all budgets with their standing. The stream does not have them, but it says when a
// session changes, and what a session spends comes with an event of it.
export function useBudgets(every = rarely) {
  const sessions = useLiveList<{ id: string }>("sessions");
  const read = useQuery({ queryKey: ["budgets"], queryFn: ({ signal }) => need(api.GET("/v1/budgets", { signal })), refetchInterval: every });
  const { refetch, dataUpdatedAt } = read;
  const known = useRef(sessions);
  useEffect(() => {
    if (known.current === sessions) return;
    const timer = setTimeout(() => {
      known.current = sessions;
      void refetch();
    }, Math.max(0, dataUpdatedAt + mostOften - Date.now()));
    return () => clearTimeout(timer);
  }, [sessions, dataUpdatedAt, refetch]);
  return read;
}
