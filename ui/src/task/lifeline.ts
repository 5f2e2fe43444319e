// The life of a task in steps, from its record and its events.
import { actionWords } from "../recovery/words";
import type { Event, Task } from "../event/types";
import { clock, duration } from "../text/text";
import { ended, taskLook } from "./look";

export type Step = { key: string; word: string; at?: string; about?: string; seq?: number; tone: "past" | "now" | "open" | "bad" | "odd" };
export type Gap = { key: string; words: string };

export type Attempt = { n: number; began: string; how: string; seq?: number };

// attemptsOf returns the periods of ownership, oldest first.
export function attemptsOf(task: Task, events: readonly Event[]): Attempt[] {
  const created = events.find((e) => e.type === "task.created");
  const all: Attempt[] = [{ n: 1, began: task.started_at && task.attempt === 1 ? task.started_at : task.created_at, how: "first start", seq: created?.seq }];
  for (const e of events) {
    if (e.type !== "task.reattached") continue;
    const d = e.data as { attempt?: number; how?: string };
    const how = d.how ?? "";
    all.push({ n: d.attempt ?? all.length + 1, began: e.at, how: `its worker was dead; it ${actionWords[how] ?? how}`, seq: e.seq });
  }
  return all;
}

const between = (a: string | undefined, b: string | undefined) => (a && b ? Math.max(0, Date.parse(b) - Date.parse(a)) : 0);

// lifeline returns the steps with the gaps between them. A gap is a time in which nothing ran, and says why.
export function lifeline(task: Task, events: readonly Event[], now: number): (Step | Gap)[] {
  const line: (Step | Gap)[] = [{ key: "queued", word: "Queued", at: task.created_at, seq: events.find((e) => e.type === "task.created")?.seq, tone: "past" }];
  const attempts = attemptsOf(task, events);
  if (task.started_at || task.state !== "queued") {
    const wait = between(task.created_at, task.started_at);
    if (task.started_at && wait >= 1000) line.push({ key: "wait", words: `waited ${duration(wait)} for a slot` });
    line.push({ key: "claimed", word: `Claimed (attempt 1)`, at: task.started_at || task.created_at, tone: "past" });
  }
  for (const a of attempts.slice(1)) {
    line.push({ key: `gap${a.n}`, words: "no worker: it had died" });
    line.push({ key: `attempt${a.n}`, word: `Taken over (attempt ${a.n})`, at: a.began, about: a.how, seq: a.seq, tone: "past" });
  }
  if (task.state === "queued") {
    line[line.length - 1] = { ...(line[line.length - 1] as Step), tone: "now", about: `waits for a slot, for ${duration(now - Date.parse(task.created_at))}` };
  } else if (!ended(task.state)) {
    const asks = task.state === "awaiting_input";
    line.push({ key: "running", word: asks ? "Waits for your answer" : "Running", about: task.started_at ? `for ${duration(now - Date.parse(task.started_at))}` : undefined, tone: "now" });
  } else if (task.started_at) {
    line.push({ key: "ran", word: "Ran", about: `for ${duration(between(task.started_at, task.finished_at))}`, tone: "past" });
  }
  if (task.cancel_requested_at) line.push({ key: "cancel", word: "Cancel requested", at: task.cancel_requested_at, about: task.cancel_by ? `by ${task.cancel_by}` : undefined, tone: ended(task.state) ? "past" : "now" });
  if (task.force_requested_at) line.push({ key: "force", word: "Force requested", at: task.force_requested_at, tone: ended(task.state) ? "past" : "now" });
  line.push(settled(task));
  line.push(delivered(task, events));
  return line;
}

function settled(task: Task): Step {
  if (!ended(task.state)) return { key: "settled", word: "Settled", tone: "open" };
  const tone = task.state === "unknown" ? "odd" : task.state === "failed" ? "bad" : "past";
  return { key: "settled", word: task.state === "unknown" ? "Outcome unknown" : `Settled: ${taskLook(task.state).word.toLowerCase()}`, at: task.finished_at, about: task.resolved_at ? `resolved at ${clock(task.resolved_at)}` : undefined, tone };
}

function delivered(task: Task, events: readonly Event[]): Step {
  const at = events.findLast((e) => e.type === "task.delivered");
  if (at) return { key: "delivered", word: `Delivered at seq ${at.seq}`, at: at.at, seq: at.seq, tone: "past" };
  if (task.delivered && task.delivered !== "no" && task.delivered !== "not_delivered") return { key: "delivered", word: "Delivered", about: `it was ${task.delivered}`, tone: "past" };
  if (task.origin === "host") return { key: "delivered", word: "Read by its caller", about: "nothing enters a transcript", tone: "open" };
  return { key: "delivered", word: "Delivered", about: task.delivery === "manual" ? "when the host drains it" : "at the next safe point of its session", tone: "open" };
}
