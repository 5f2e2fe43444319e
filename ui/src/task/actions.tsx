import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { need } from "../../client";
import { api } from "../app/api";
import { ActionLines } from "../app/lines";
import { Button, Failure } from "../app/pieces";
import type { Task } from "../event/types";
import { useMay } from "../principal/principal";
import { line, type Request } from "../text/shell";
import { oneLine } from "../text/text";
import { able, forceable, retryWords } from "./run";
import { Stop } from "./stop";

// Actions are what a person can do with a task. What the token does not allow is said once.
export function Actions({ task }: { task: Task }) {
  const { may, why } = useMay("write");
  const [asks, setAsks] = useState<"retry" | "cli">();
  return (
    <span className="row-of">
      {!may && <span className="soft small">{why}</span>}
      {may && <Stop task={task} />}
      {may && able("retry", task) && <Button onPress={() => setAsks("retry")}>Retry…</Button>}
      <Button look="bare" onPress={() => setAsks("cli")}>
        Commands
      </Button>
      {asks && (
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
  if (forceable(task)) lines.push(["Kill it at once", line("perdure", "task", "cancel", task.id, "--force"), post("cancel", { force: true })]);
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
