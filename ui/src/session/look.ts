import type { Look } from "../app/icon";
import type { Session } from "../event/types";
import type { CallState } from "./transcript";

// sessionLook returns how the state of a session is shown. What needs a person comes first.
export function sessionLook(s: Session): Look {
  if (s.needs_you > 0) return { icon: "hand", word: "Needs you", tone: "warn" };
  if (s.unknown > 0) return { icon: "ask", word: "Unknown outcome", tone: "odd" };
  if (s.home?.waits_since) return { icon: "clock", word: "Waits for its home", tone: "warn" };
  switch (s.state) {
    case "active":
      return { icon: "ring", word: "Working", tone: "live", spin: true };
    case "waiting_for_tool_results":
      return { icon: "clock", word: "Waits for its client", tone: "warn" };
    case "paused":
      return { icon: "pause", word: "Paused", tone: "warn" };
    case "started":
      return { icon: "dot", word: "New", tone: "soft" };
  }
  if (s.open_tasks > 0) return { icon: "detach", word: "Idle, work running", tone: "live" };
  return { icon: "check", word: "Idle", tone: "soft" };
}

const callLooks: Record<CallState, Look> = {
  planned: { icon: "dot", word: "Planned", tone: "soft" },
  asks: { icon: "hand", word: "Needs approval", tone: "warn" },
  waits: { icon: "clock", word: "Waits for its client", tone: "warn" },
  running: { icon: "ring", word: "Running", tone: "live", spin: true },
  background: { icon: "detach", word: "Running in the background", tone: "live" },
  success: { icon: "check", word: "Done", tone: "good" },
  error: { icon: "cross", word: "Failed", tone: "bad" },
  timeout: { icon: "clock", word: "Timed out", tone: "bad" },
  canceled: { icon: "stop", word: "Canceled", tone: "soft" },
  interrupted: { icon: "stop", word: "Interrupted", tone: "soft" },
  unknown: { icon: "ask", word: "Claimed, outcome unknown", tone: "odd" },
};

// callLook returns how the state of a call is shown.
export function callLook(state: CallState): Look {
  return callLooks[state] ?? { icon: "dot", word: state, tone: "soft" };
}

// classWords explains the effect classes.
export const classWords: Record<string, string> = {
  pure: "pure: changes nothing, may run again",
  idempotent: "idempotent: may run again under the same key",
  at_most_once: "at most once: never run again after a crash",
};
