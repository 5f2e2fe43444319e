// How long work lives, and what else runs beside and below it.
import type { Task } from "../event/types";

export type Life = "turn" | "session" | "detached";

// lifeOf returns how long a task lives: until its turn ends, until somebody ends it, or until its work is
// done, whatever its turn does.
export function lifeOf(t: Pick<Task, "kind" | "lane">): Life {
  if (t.kind === "monitor") return "session";
  return t.lane === "foreground" ? "turn" : "detached";
}

export const lifeWords: Record<Life, string> = {
  turn: "turn: ends with its turn",
  session: "session: repeats until it is canceled, or its session is deleted",
  detached: "detached: outlives its turn",
};

// below returns the tasks that a cancel of some tasks reaches besides: runs of a monitor, and the work in
// the sessions of subagents, at any depth.
export function below(tops: readonly Task[], tasks: readonly Task[]): Task[] {
  const ids = new Set(tops.map((t) => t.id));
  const sessions = new Set<string>();
  const found: Task[] = [];
  const reach = (t: Task) => t.links?.child_session_id && sessions.add(t.links.child_session_id);
  tops.forEach(reach);
  for (let grew = true; grew; ) {
    grew = false;
    for (const t of tasks) {
      if (ids.has(t.id) || !(sessions.has(t.session_id) || (t.parent_task_id && ids.has(t.parent_task_id)))) continue;
      ids.add(t.id);
      found.push(t);
      reach(t);
      grew = true;
    }
  }
  return found;
}

// Shares says what an act ends by itself, and what keeps running beside it. others has each piece of work
// once: the part below it goes with it.
export type Shares = { ends: Task[]; others: Task[] };

const live = (t: Task) => (t.state === "queued" || t.state === "running" || t.state === "awaiting_input") && !t.cancel_requested_at;

// byInterrupt divides the work of a session: an interrupt ends what the turn waits for.
export function byInterrupt(session: string, tasks: readonly Task[]): Shares {
  const open = tasks.filter(live);
  const own = open.filter((t) => t.session_id === session);
  const waited = own.filter((t) => lifeOf(t) === "turn");
  return divide(waited, own, open);
}

// byCancel divides the work beside a task: a cancel ends the task and everything below it.
export function byCancel(task: Task, tasks: readonly Task[]): Shares {
  const open = tasks.filter(live);
  const { ends, others } = divide([task], open.filter((t) => t.session_id === task.session_id), open);
  return { ends: ends.filter((t) => t.id !== task.id), others };
}

// byDelete returns the work that prevents the deletion of a session.
export function byDelete(session: string, tasks: readonly Task[]): Shares {
  const open = tasks.filter(live);
  return divide([], open.filter((t) => t.session_id === session), open);
}

function divide(tops: Task[], own: Task[], open: Task[]): Shares {
  const ends = [...tops, ...below(tops, open)];
  const gone = new Set(ends.map((t) => t.id));
  const rest = own.filter((t) => !gone.has(t.id));
  const under = new Set(rest.map((t) => t.id));
  return { ends, others: rest.filter((t) => !t.parent_task_id || !under.has(t.parent_task_id)) };
}
