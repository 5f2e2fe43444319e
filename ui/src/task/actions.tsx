import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { need, type Schemas } from "../../client";
import { api, queries } from "../app/api";
import { ActionLines } from "../app/lines";
import { Button, Failure } from "../app/pieces";
import type { Event, Task } from "../event/types";
import { useMay } from "../principal/principal";
import { line, type Request } from "../text/shell";
import { clock, duration, oneLine } from "../text/text";
import { byCancel } from "./life";
import { liveRows, useOpenTasks } from "./live";
import { ended } from "./look";
import { able, retryWords } from "./run";

const Ending = lazy(async () => ({ default: (await import("./ending")).Ending }));

type Receipt = Schemas["CancelReceipt"];

// Actions are what a person can do with a task. What the token does not allow is said once.
export function Actions({ task }: { task: Task }) {
  const { may, why } = useMay("write");
  const [asks, setAsks] = useState<"cancel" | "retry" | "cli">();
  const tasks = useOpenTasks();
  const shares = byCancel(task, tasks);
  const asksFirst = tasks.length >= liveRows || shares.ends.length + shares.others.length > 0;
  const send = () => need(api.POST("/v1/tasks/{id}/cancel", { params: { path: { id: task.id } }, body: {} } as never));
  const cancel = useMutation({
    mutationFn: send,
    onSettled: () => queries.invalidateQueries({ queryKey: ["task", task.id] }),
  });
  return (
    <span className="row-of">
      {cancel.error && (
        <span className="tone-bad small" role="alert">
          {oneLine(cancel.error.message, 200)}
        </span>
      )}
      {!may && <span className="soft small">{why}</span>}
      {may && able("cancel", task) && (
        <Button isDisabled={cancel.isPending} onPress={() => (asksFirst ? setAsks("cancel") : cancel.mutate())}>
          {cancel.isPending ? "Canceling…" : "Cancel task"}
        </Button>
      )}
      {may && able("retry", task) && <Button onPress={() => setAsks("retry")}>Retry…</Button>}
      <Button look="bare" onPress={() => setAsks("cli")}>
        Commands
      </Button>
      {asks === "cancel" && (
        <Suspense>
          <Ending act={{ title: `Cancel ${oneLine(task.display_name || task.tool, 60)}`, button: "Cancel task", session: task.session_id, run: send, cli: line("perdure", "task", "cancel", task.id), curl: { method: "POST", path: `/v1/tasks/${task.id}/cancel`, body: {} } }} share={(all) => byCancel(task, all)} onClose={() => setAsks(undefined)}>
            <p className="small">It has its grace period to end by itself, and is killed after it.</p>
          </Ending>
        </Suspense>
      )}
      {(asks === "retry" || asks === "cli") && (
        <ModalOverlay className="backdrop" isDismissable isOpen onOpenChange={(open) => !open && setAsks(undefined)}>
          <Modal className="modal">
            <Dialog>{asks === "retry" ? <Retry task={task} close={() => setAsks(undefined)} /> : <Commands task={task} close={() => setAsks(undefined)} />}</Dialog>
          </Modal>
        </ModalOverlay>
      )}
    </span>
  );
}

// Retry says what a retry means before it is made, and leads to the new task.
function Retry({ task, close }: { task: Task; close: () => void }) {
  const navigate = useNavigate();
  const send = useMutation({
    mutationFn: () => need(api.POST("/v1/tasks/{id}/retry", { params: { path: { id: task.id } }, body: {} } as never)) as Promise<{ task?: Task }>,
    onSuccess: (made) => {
      close();
      if (made.task) void navigate({ to: "/tasks/$id", params: { id: made.task.id }, search: {} });
    },
  });
  return (
    <div className="stack">
      <Heading slot="title" level={2}>
        Call {oneLine(task.tool, 60)} again
      </Heading>
      <p>{retryWords[task.effect_class] ?? task.effect_class}</p>
      <p className="small soft">The arguments are the same. The retry is a new task; its end is not delivered to the model.</p>
      {send.error && <Failure error={send.error} />}
      <div className="row-of">
        <Button look="first" isDisabled={send.isPending} onPress={() => send.mutate()}>
          {send.isPending ? "Starting…" : "Retry"}
        </Button>
        <Button onPress={close}>Back</Button>
      </div>
    </div>
  );
}

// Commands shows the lines of the CLI and of curl for each action, to copy.
function Commands({ task, close }: { task: Task; close: () => void }) {
  const post = (verb: string, body: unknown = {}): Request => ({ method: "POST", path: `/v1/tasks/${task.id}/${verb}`, body });
  const lines: [string, string, Request][] = [
    ["Show it", line("perdure", "task", "show", task.id), { method: "GET", path: `/v1/tasks/${task.id}` }],
    ["Follow its log", line("perdure", "task", "log", task.id, "--follow"), { method: "GET", path: `/v1/tasks/${task.id}/log?follow=true` }],
  ];
  if (able("cancel", task)) lines.push(["Cancel it", line("perdure", "task", "cancel", task.id), post("cancel")]);
  if (task.input_request) lines.push(["Answer its question", line("perdure", "task", "input", task.id, "ANSWER"), post("input", { id: task.input_request.id, answer: "ANSWER" })]);
  if (able("retry", task)) lines.push(["Retry it", line("perdure", "api", "POST", `/v1/tasks/${task.id}/retry`), post("retry")]);
  if (able("resolve", task)) lines.push(["Resolve it", line("perdure", "task", "resolve", task.id, "--happened"), post("resolve", { outcome: "happened" })]);
  return (
    <div className="stack">
      <Heading slot="title" level={2}>
        The same on the command line
      </Heading>
      {lines.map(([word, cli, curl], i) => (
        <div key={word}>
          <p className="small soft">{word}</p>
          <ActionLines cli={cli} curl={curl} open={i < 3} />
        </div>
      ))}
      <div className="row-of">
        <Button onPress={close}>Close</Button>
      </div>
    </div>
  );
}

// CancelState says how far a cancel has got. The server kills what does not end in its grace period by
// itself, so there is nothing else to press.
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
        : `${r?.signalled_at ? `its worker was signalled at ${clock(r.signalled_at)}` : "on its way to the worker"}; it may end by itself in its grace period (10 s by default), and is killed after it. ${duration(now - Date.parse(task.cancel_requested_at))} so far`;
  return (
    <div className={`notice ${r?.did_not_stop ? "bad" : ""}`} role="status" data-testid="receipt">
      <p>
        <strong>Cancel requested{by}</strong> at {clock(task.cancel_requested_at)}: {words}.
      </p>
      {task.cancel_why && <p className="small untrusted">{oneLine(task.cancel_why, 300)}</p>}
    </div>
  );
}
