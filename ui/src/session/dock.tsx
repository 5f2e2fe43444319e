import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { need } from "../../client";
import { api } from "../app/api";
import { ApprovalCard } from "../approval/card";
import { liveRows, useLiveList } from "../event/list";
import type { Approval, Session, Task } from "../event/types";
import { lifeOf } from "../task/life";
import { oneLine, plural } from "../text/text";

const readMs = 5000; // how often the work of a session is read, if the stream may not have all of it
const most = 50; // of each kind that is read

// Dock holds what waits for a person, and the work that outlives the turn.
export function Dock({ session }: { session: Session }) {
  const asks = useAsks(session.id);
  const work = useWork(session.id);
  const outlive = work.filter((t) => lifeOf(t) !== "turn").length;
  if (asks.length === 0 && work.length === 0 && session.state !== "paused") return null;
  return (
    <div className="dock" role="region" aria-label="Needs you, and running work" tabIndex={0}>
      {session.state === "paused" && (
        <p className="small" role="status">
          This session is paused{session.paused?.reason ? `: ${oneLine(session.paused.reason, 200)}` : ""}. Messages wait until it is resumed.
        </p>
      )}
      {asks.map((a) => (
        <ApprovalCard key={a.id} approval={a} compact />
      ))}
      {work.length > 0 && (
        <p className="row-of small">
          <span className="soft">{outlive > 0 ? `${plural(outlive, "task")} ${outlive === 1 ? "outlives" : "outlive"} the turn:` : "The turn waits for:"}</span>
          {work.slice(0, 6).map((t) => (
            <Link key={t.id} to="/tasks/$id" params={{ id: t.id }} className="pill">
              {oneLine(t.display_name || t.tool, 40)} · {t.state.replaceAll("_", " ")}
              {outlive > 0 && lifeOf(t) === "turn" && " · ends with the turn"}
            </Link>
          ))}
          {work.length > 6 && <Link to="/tasks">{work.length - 6} more</Link>}
        </p>
      )}
    </div>
  );
}

// useAsks returns the open approvals of a session. The stream has the newest of all sessions alone: where
// it may not have those of this one, they are read.
function useAsks(session: string): Approval[] {
  const live = useLiveList<Approval>("approvals");
  const read = useQuery({
    queryKey: ["asks", session],
    queryFn: async ({ signal }) => (await need(api.GET("/v1/approvals", { signal, params: { query: { session, state: "open", limit: most } } }))).items as Approval[],
    enabled: live.size >= liveRows,
    refetchInterval: readMs,
  });
  return useMemo(() => joined(read.data, live, session, live.size >= liveRows), [read.data, live, session]);
}

// useWork returns the tasks of a session that have not ended, in the same way.
function useWork(session: string): Task[] {
  const live = useLiveList<Task>("tasks");
  const read = useQuery({
    queryKey: ["work", session],
    queryFn: async ({ signal }) => (await need(api.GET("/v1/tasks", { signal, params: { query: { session, state: "queued,running,awaiting_input,unknown", limit: most } } }))).items as Task[],
    enabled: live.size >= liveRows,
    refetchInterval: readMs,
  });
  return useMemo(() => joined(read.data, live, session, live.size >= liveRows), [read.data, live, session]);
}

function joined<T extends { id: string; session_id: string }>(read: T[] | undefined, live: ReadonlyMap<string, T>, session: string, more: boolean): T[] {
  const own = [...live.values()].filter((one) => one.session_id === session);
  return more ? [...(read ?? []).filter((one) => !live.has(one.id)), ...own] : own;
}
