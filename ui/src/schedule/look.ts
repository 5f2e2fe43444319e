import type { Schemas } from "../../client";
import type { Look } from "../app/icon";
import { duration, oneLine, pretty } from "../text/text";

export type Schedule = Schemas["Schedule"];
export type Fire = Schemas["Fire"];
export type NextFire = Schemas["NextFire"];

// States of a schedule, as the filter of the list names them.
export type ScheduleState = "on" | "paused" | "done";

export function stateOf(s: Schedule): ScheduleState {
  return s.enabled ? "on" : s.paused_why ? "paused" : "done";
}

// scheduleLook returns how the state of a schedule is shown.
export function scheduleLook(s: Schedule): Look {
  switch (stateOf(s)) {
    case "on":
      return { icon: "check", word: "On", tone: "good" };
    case "paused":
      return { icon: "pause", word: s.paused_why === "canceled" ? "Canceled" : "Paused", tone: "warn" };
  }
  return { icon: "dot", word: "Done", tone: "soft" };
}

// times says when a schedule fires.
export function times(s: Schedule): string {
  return s.in_words ? oneLine(s.in_words, 200) : s.cron_expression ? oneLine(s.cron_expression, 200) : "once";
}

// does says what a fire does.
export function does(s: Pick<Schedule, "action">): string {
  const a = s.action;
  return a.tool ? `runs ${oneLine(a.tool, 60)} ${oneLine(pretty(a.args ?? {}), 120)}` : `sends: ${oneLine(a.message ?? "", 200)}`;
}

export const overlapWords: Record<string, string> = {
  skip: "a new fire is skipped",
  allow: "both run",
  queue: "one fire waits",
  replace: "the previous one is canceled",
};

export const missedWords: Record<string, string> = {
  one: "one fire for all of them",
  skip: "skipped",
  all: "each is made up",
};

// lastResult says how the previous fire went, as far as the schedule knows.
export function lastResult(s: Schedule): Look {
  if (s.failures_in_a_row > 0) return { icon: "cross", word: s.failures_in_a_row === 1 ? "Last failed" : `Last ${s.failures_in_a_row} failed`, tone: "bad" };
  if (!s.last_triggered_at) return { icon: "dot", word: "Not yet fired", tone: "soft" };
  return { icon: "check", word: "Fired", tone: "good" };
}

// Result is how the work of a fire ended, or that it has not.
export type Result = "running" | "succeeded" | "failed" | "canceled" | "unknown" | "awaiting_input" | "queued" | undefined;

const resultLooks: Record<string, Look> = {
  running: { icon: "ring", word: "Running", tone: "live", spin: true },
  queued: { icon: "ring", word: "Queued", tone: "live" },
  awaiting_input: { icon: "hand", word: "Needs you", tone: "warn" },
  succeeded: { icon: "check", word: "Done", tone: "good" },
  failed: { icon: "cross", word: "Failed", tone: "bad" },
  canceled: { icon: "stop", word: "Canceled", tone: "soft" },
  unknown: { icon: "ask", word: "Unknown outcome", tone: "odd" },
};

const outcomeLooks: Record<string, Look> = {
  fired: { icon: "check", word: "Fired", tone: "good" },
  queued: { icon: "clock", word: "Waits for the previous one", tone: "live" },
  failed_to_start: { icon: "cross", word: "Failed to start", tone: "bad" },
  skipped_missed: { icon: "stop", word: "Skipped, missed", tone: "warn" },
  skipped_overlap: { icon: "stop", word: "Skipped, overlap", tone: "warn" },
  skipped_budget: { icon: "stop", word: "Skipped, budget", tone: "warn" },
};

// fireLook returns how a fire is shown.
export function fireLook(f: Fire, result: Result): Look {
  if (f.outcome === "fired" && result) return resultLooks[result] ?? { icon: "dot", word: result, tone: "soft" };
  return outcomeLooks[f.outcome] ?? { icon: "dot", word: f.outcome.replaceAll("_", " "), tone: "soft" };
}

const grace = 60_000; // a fire that is later than this counts as late

// lateness says by how much a fire came after its nominal time, or "" if it was on time. A fire that a
// person made is never late.
export function lateness(f: Fire): string {
  if (f.outcome !== "fired" || /^(triggered|backfilled) by /.test(f.reason ?? "")) return "";
  const ms = Date.parse(f.actual_at) - Date.parse(f.nominal_at);
  return ms > grace ? `${duration(ms)} late` : "";
}

// turnResult reads from the events after a message how its turn ended.
export function turnResult(events: { type: string; turn_id?: string; data?: unknown }[], message: string): Result {
  let turn: string | undefined;
  for (const e of events) {
    const data = (e.data ?? {}) as { message_id?: string; turn_id?: string; inputs?: string[] };
    if (e.type === "turn.started" && data.message_id === message) turn = data.turn_id ?? e.turn_id;
    if (e.type === "reason.started" && data.inputs?.includes(message)) turn = e.turn_id;
    if (turn === undefined || e.turn_id !== turn) continue;
    if (e.type === "turn.completed" || e.type === "turn.sealed") return "succeeded";
    if (e.type === "turn.canceled") return "canceled";
    if (e.type === "turn.failed") return "failed";
  }
  return turn === undefined ? "queued" : "running";
}
