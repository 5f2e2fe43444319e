import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef } from "react";
import { need } from "../../client";
import { api } from "../app/api";
import { useNow, useTitle } from "../app/hooks";
import { State } from "../app/icon";
import { Button, Failure } from "../app/pieces";
import { useOpenApprovals } from "../approval/live";
import type { Task } from "../event/types";
import { age, oneLine } from "../text/text";
import { useOpenTasks } from "./live";
import { taskLook } from "./look";
import "../session/session.css";
import "./task.css";

const route = getRouteApi("/tasks");

const tabs = ["needs-you", "working", "done", "failed"] as const;
type Tab = (typeof tabs)[number];
const words: Record<Tab, string> = { "needs-you": "Needs you", working: "Working", done: "Done", failed: "Failed or unknown" };

// useEnded reads tasks in one final state. Only the tabs that show them ask for them.
function useEnded(state: "succeeded" | "failed" | "canceled", enabled: boolean) {
  return useInfiniteQuery({
    queryKey: ["tasks", state],
    enabled,
    queryFn: ({ pageParam, signal }) => need(api.GET("/v1/tasks", { signal, params: { query: { state, limit: 200, ...(pageParam ? { cursor: pageParam } : {}) } } })),
    initialPageParam: "",
    getNextPageParam: (last) => last.next || undefined,
  });
}

export function TaskList() {
  const search = route.useSearch();
  const open = useOpenTasks();
  const approvals = useOpenApprovals();
  const groups = useMemo(
    () => ({
      "needs-you": open.filter((t) => t.state === "awaiting_input"),
      working: open.filter((t) => t.state === "running" || t.state === "queued"),
      failed: open.filter((t) => t.state === "unknown"),
    }),
    [open],
  );
  const needs = groups["needs-you"].length + approvals.length;
  const tab: Tab = tabs.find((t) => t === search.tab) ?? (needs > 0 ? "needs-you" : "working");
  const done = useEnded("succeeded", tab === "done");
  const failed = useEnded("failed", tab === "failed");
  const read = tab === "done" ? done : tab === "failed" ? failed : undefined;
  const rows = useMemo(() => {
    const ended = (read?.data?.pages.flatMap((p) => p.items as Task[]) ?? []).toReversed();
    return tab === "done" ? ended : tab === "failed" ? [...groups.failed, ...ended] : groups[tab];
  }, [tab, groups, read?.data]);
  const counts: Partial<Record<Tab, number>> = { "needs-you": needs, working: groups.working.length };
  useTitle(`Tasks, ${words[tab].toLowerCase()}`);

  return (
    <>
      <div className="head">
        <h1>Tasks</h1>
        <nav className="chips grow" aria-label="Groups of tasks">
          {tabs.map((t) => (
            <Link key={t} to="/tasks" search={{ tab: t }} activeOptions={{ exact: true }} aria-current={t === tab ? "page" : undefined}>
              {words[t]}
              {counts[t] !== undefined ? ` ${counts[t]}` : ""}
            </Link>
          ))}
        </nav>
        {read?.hasNextPage && (
          <Button isDisabled={read.isFetchingNextPage} onPress={() => void read.fetchNextPage()}>
            Read newer ones
          </Button>
        )}
      </div>
      {read?.error ? (
        <div className="center">
          <Failure error={read.error} onRetry={() => void read.refetch()} />
        </div>
      ) : rows.length === 0 && !(tab === "needs-you" && approvals.length > 0) ? (
        <p className="center soft">{read?.isPending ? "Loading…" : tab === "needs-you" ? "Nothing needs you." : "No task is in this group."}</p>
      ) : (
        <Rows rows={rows} asks={tab === "needs-you" ? approvals.map((a) => ({ id: a.id, session: a.session_id, tool: a.tool })) : []} />
      )}
    </>
  );
}

function Rows({ rows, asks }: { rows: Task[]; asks: { id: string; session: string; tool: string }[] }) {
  const box = useRef<HTMLDivElement>(null);
  const now = useNow(2000);
  // eslint-disable-next-line react-hooks/incompatible-library
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: () => 56, overscan: 10, getItemKey: (i) => rows[i]!.id });
  return (
    <div className="scroll sessions" ref={box} tabIndex={0} role="region" aria-label="List of tasks">
      {asks.length > 0 && (
        <ul className="asks">
          {asks.map((a) => (
            <li key={a.id}>
              <Link to="/sessions/$id" params={{ id: a.session }} className="ask">
                <State look={{ icon: "hand", word: "Needs approval", tone: "warn" }} /> <span>{oneLine(a.tool, 60)}</span>
              </Link>
            </li>
          ))}
        </ul>
      )}
      <ul style={{ height: virtual.getTotalSize(), position: "relative" }}>
        {virtual.getVirtualItems().map((item) => {
          const t = rows[item.index]!;
          return (
            <li key={item.key} aria-setsize={rows.length} aria-posinset={item.index + 1}>
              <Link to="/tasks/$id" params={{ id: t.id }} className="line" style={{ transform: `translateY(${item.start}px)` }}>
                <State look={taskLook(t.state)} />
                <span className="title" dir="auto">
                  {oneLine(t.display_name || t.tool, 120)}
                  <small>{oneLine(t.summary || t.state_detail || t.tail?.trimEnd().split("\n").at(-1) || t.tool, 160)}</small>
                </span>
                <span className="tasks">{t.attempt > 1 && <span className="pill">attempt {t.attempt}</span>}</span>
                <span className="soft small age">{age(t.finished_at || t.started_at || t.created_at, now)}</span>
              </Link>
            </li>
          );
        })}
      </ul>
    </div>
  );
}
