import { useMutation } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { need, type Schemas } from "../../client";
import { api, queries } from "../app/api";
import { useNow } from "../app/hooks";
import { Button } from "../app/pieces";
import type { Event, Task } from "../event/types";
import { line } from "../text/shell";
import { clock, duration, oneLine } from "../text/text";
import { byCancel } from "./life";
import { liveRows } from "../event/list";
import { useOpenTasks } from "./live";
import { ended } from "./look";
import { useOverview } from "./rows";
import { able, forceable, graceLeft } from "./run";

const Ending = lazy(async () => ({ default: (await import("./ending")).Ending }));

type Receipt = Schemas["CancelReceipt"];

// Stop cancels a task, and asks first if that ends other work or leaves it running. During the grace period the same place forces the end.
export function Stop({ task }: { task: Task }) {
  const now = useNow();
  const grace = useOverview()?.grace_period_ms;
  const [asks, setAsks] = useState(false);
  const tasks = useOpenTasks();
  const shares = byCancel(task, tasks);
  const asksFirst = tasks.length >= liveRows || shares.ends.length + shares.others.length > 0;
  const send = (force: boolean) => need(api.POST("/v1/tasks/{id}/cancel", { params: { path: { id: task.id } }, body: force ? { force } : {} } as never));
  const stop = useMutation({
    mutationFn: send,
    onSettled: () => queries.invalidateQueries({ queryKey: ["task", task.id] }),
  });
  const left = graceLeft(task, grace, now);
  return (
    <>
      {stop.error && (
        <span className="tone-bad small" role="alert">
          {oneLine(stop.error.message, 200)}
        </span>
      )}
      {able("cancel", task) && (
        <Button isDisabled={stop.isPending} onPress={() => (asksFirst ? setAsks(true) : stop.mutate(false))}>
          {stop.isPending ? "Canceling…" : "Cancel task"}
        </Button>
      )}
      {forceable(task) && (
        <Button isDisabled={stop.isPending} onPress={() => stop.mutate(true)}>
          {stop.isPending ? "Killing…" : left > 0 ? `Force (${duration(left * 1000)} left)` : "Force"}
        </Button>
      )}
      {asks && (
        <Suspense>
          <Ending act={{ title: `Cancel ${oneLine(task.display_name || task.tool, 60)}`, button: "Cancel task", session: task.session_id, run: () => send(false), cli: line("perdure", "task", "cancel", task.id), curl: { method: "POST", path: `/v1/tasks/${task.id}/cancel`, body: {} } }} share={(all) => byCancel(task, all)} onClose={() => setAsks(false)}>
            <p className="small">It has its grace period to end by itself, and is killed after it.</p>
          </Ending>
        </Suspense>
      )}
    </>
  );
}

// CancelState says how far a cancel has got. The server kills what does not end in its grace period by
// itself; force ends that time.
export function CancelState({ task, events, now }: { task: Task; events: readonly Event[]; now: number }) {
  if (!task.cancel_requested_at) return null;
  const last = events.findLast((e) => e.type === "task.cancel_receipt")?.data as { receipt?: Receipt } | undefined;
  const r = last?.receipt;
  const over = ended(task.state);
  const by = task.cancel_by ? ` by ${oneLine(task.cancel_by, 60)}` : "";
  const words = r?.dead_at
    ? `stopped at ${clock(r.dead_at)}, ${duration(Date.parse(r.dead_at) - Date.parse(task.cancel_requested_at))} after the request; nothing of it runs any more`
    : r?.did_not_stop
      ? "it did not stop in time, and is fenced: whatever it still does is not recorded"
      : over
        ? "it has ended"
        : `${r?.signalled_at ? `its worker was signalled at ${clock(r.signalled_at)}` : "on its way to the worker"}; ${task.force_requested_at ? `it is being killed since ${clock(task.force_requested_at)}` : "it may end by itself in its grace period, and is killed after it"}. ${duration(now - Date.parse(task.cancel_requested_at))} so far`;
  return (
    <div className={`notice ${r?.did_not_stop ? "bad" : ""}`} role="status" data-testid="receipt">
      <p>
        <strong>Cancel requested{by}</strong> at {clock(task.cancel_requested_at)}: {words}.
      </p>
      {forceable(task) && <p className="small soft">Force kills it now, with everything that it started. What it is writing may be left incomplete, and it cannot clean up after itself.</p>}
      {task.cancel_why && <p className="small untrusted">{oneLine(task.cancel_why, 300)}</p>}
    </div>
  );
}
