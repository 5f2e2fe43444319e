import type { Look } from "../app/icon";
import type { Task } from "../event/types";

const looks: Record<string, Look> = {
  queued: { icon: "clock", word: "Queued", tone: "soft" },
  running: { icon: "ring", word: "Running", tone: "live", spin: true },
  awaiting_input: { icon: "hand", word: "Needs you", tone: "warn" },
  succeeded: { icon: "check", word: "Done", tone: "good" },
  failed: { icon: "cross", word: "Failed", tone: "bad" },
  canceled: { icon: "stop", word: "Canceled", tone: "soft" },
  unknown: { icon: "ask", word: "Unknown outcome", tone: "odd" },
};

// taskLook returns how the state of a task is shown.
export function taskLook(state: string): Look {
  return looks[state] ?? { icon: "dot", word: state, tone: "soft" };
}

// rowLook is taskLook, and says of live work when somebody has canceled it.
export function rowLook(t: Task): Look {
  return t.cancel_requested_at && !ended(t.state) ? { icon: "stop", word: "Canceling", tone: "warn" } : taskLook(t.state);
}

// ended reports whether a task has ended.
export function ended(state: string): boolean {
  return state === "succeeded" || state === "failed" || state === "canceled" || state === "unknown";
}

// statusOf returns what a task says about its state. The detail of its start says less than its state.
export function statusOf(t: Task): string {
  return t.state === "running" && t.state_detail === "Starting" ? "" : (t.state_detail ?? "");
}
