import { useMutation, useQuery } from "@tanstack/react-query";
import { useId, useMemo, useState, type ReactNode } from "react";
import { Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { need } from "../../client";
import { api, queries } from "../app/api";
import { ActionLines } from "../app/lines";
import { Button, Failure } from "../app/pieces";
import type { Task } from "../event/types";
import { line, type Request } from "../text/shell";
import { oneLine, plural } from "../text/text";
import { lifeOf, lifeWords, type Shares } from "./life";
import { useOpenTasks } from "./live";
import { taskLook } from "./look";
import { runAll } from "./run";
import "../session/new.css";
import "./task.css";

const named = 8; // tasks that a list names

// Act is what a person ends. run ends it; with also, the other work has been asked to end before.
export type Act = { title: string; button: string; session: string; cli: string; curl: Request; run: (also: readonly Task[]) => Promise<unknown> };

type Props = { act: Act; share: (tasks: readonly Task[]) => Shares; required?: string; ready?: boolean; children?: ReactNode; onClose: () => void };

// Ending asks before it ends something beside which other work keeps running. required says why the act
// needs the end of the others; without it they keep running unless the person chooses otherwise.
export function Ending(props: Props) {
  return (
    <ModalOverlay className="backdrop" isDismissable isOpen onOpenChange={(open) => !open && props.onClose()}>
      <Modal className="modal">
        <Dialog>
          <Form {...props} />
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

function Form({ act, share, required, ready = true, children, onClose }: Props) {
  const live = useOpenTasks();
  const read = useQuery({ queryKey: ["tasks", "of", act.session], queryFn: ({ signal }) => openTasksOf(act.session, signal), staleTime: Infinity, gcTime: 0 });
  // as they were when the question was asked; the live rows have the work of subagents
  const { ends, others } = useMemo(() => share([...new Map([...live, ...(read.data ?? [])].map((t) => [t.id, t])).values()]), [read.data]); // eslint-disable-line react-hooks/exhaustive-deps
  const [also, setAlso] = useState(false);
  const go = useMutation({
    mutationFn: async () => {
      const chosen = also ? others : [];
      const sum = await runAll(chosen, (t) => need(api.POST("/v1/tasks/{id}/cancel", { params: { path: { id: t.id } }, body: {} } as never)), () => {});
      const [refused] = sum.failed;
      if (refused) throw new Error(`${plural(sum.failed.length, "task")} could not be asked to end, and nothing else was ended. ${oneLine(refused.task.display_name || refused.task.tool, 60)}: ${refused.why}`);
      return act.run(chosen);
    },
    onSuccess: onClose,
    onSettled: () => {
      for (const key of ["task", "tasks", "task-counts", "session"]) void queries.invalidateQueries({ queryKey: [key] });
    },
  });
  const unread = read.isPending && !read.error && (also || required !== undefined);
  const blocked = required !== undefined && others.length > 0 && !also;
  return (
    <form
      className="stack"
      onSubmit={(e) => {
        e.preventDefault();
        if (!blocked && !unread && ready && !go.isPending) go.mutate();
      }}
    >
      <Heading slot="title" level={2}>
        {act.title}
      </Heading>
      {children}
      <Work title="Ends with it" tasks={ends} />
      <Work title={required === undefined ? "Keeps running" : "Still running"} tasks={others} />
      {others.length > 0 && (
        <label className="row-of">
          <input type="checkbox" checked={also} onChange={(e) => setAlso(e.target.checked)} /> Also cancel {others.length === 1 ? "this task" : `these ${others.length} tasks`}
        </label>
      )}
      {blocked && <p className="small soft">{required}</p>}
      {read.error && <Failure error={read.error} onRetry={() => void read.refetch()} />}
      {go.error && <Failure error={go.error} />}
      <div className="row-of">
        <Button type="submit" look="first" autoFocus={ready} isDisabled={blocked || unread || !ready || go.isPending}>
          {go.isPending ? "Working…" : act.button}
        </Button>
        <Button onPress={onClose}>Back</Button>
      </div>
      {also && <ActionLines {...cancelLines(act.session, others)} />}
      <ActionLines cli={act.cli} curl={act.curl} />
    </form>
  );
}

// openTasksOf reads the work of a session that has not ended. The live rows are only the newest.
async function openTasksOf(session: string, signal: AbortSignal): Promise<Task[]> {
  const all: Task[] = [];
  for (let cursor = ""; ; ) {
    const page = await need(api.GET("/v1/tasks", { signal, params: { query: { session, state: "queued,running,awaiting_input", limit: 200, ...(cursor ? { cursor } : {}) } } }));
    all.push(...(page.items as Task[]));
    if (!page.next) return all;
    cursor = page.next;
  }
}

// cancelLines are the lines for the work that is canceled besides. All other work of the session ends.
function cancelLines(session: string, others: readonly Task[]): { cli: string; curl: Request } {
  const [one] = others;
  if (others.length === 1 && one) return { cli: line("perdure", "task", "cancel", one.id), curl: { method: "POST", path: `/v1/tasks/${one.id}/cancel`, body: {} } };
  return { cli: line("perdure", "task", "cancel", "--all", "--session", session), curl: { method: "POST", path: "/v1/tasks:cancel", body: { filter: { session_id: session } } } };
}

// Work names tasks and says how long each of them lives.
function Work({ title, tasks }: { title: string; tasks: readonly Task[] }) {
  const id = useId();
  if (tasks.length === 0) return null;
  return (
    <div>
      <p id={id} className="small soft">
        {title}
      </p>
      <ul className="names small" aria-labelledby={id}>
        {tasks.slice(0, named).map((t) => (
          <li key={t.id}>
            <strong>{oneLine(t.display_name || t.tool, 80)}</strong>
            <br />
            <span className="soft">
              {taskLook(t.state).word} · {lifeWords[lifeOf(t)]}
              {t.kind === "subagent" && ", with all of its work"}
            </span>
          </li>
        ))}
        {tasks.length > named && <li className="soft">and {tasks.length - named} more</li>}
      </ul>
    </div>
  );
}
