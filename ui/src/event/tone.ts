import type { Event } from "./types";

const bad = /\.(failed|sealed|denied|cleanup_failed|exhausted)$/;
const warn = /^(approval\.requested|session\.paused|turn\.interrupt_requested|turn\.canceled|turn\.loop_detected|budget\.|delivery\.held|tool\.taken_over|task\.reattached|reason\.recovered)/;

// toneOf returns the colour of the type of an event: what failed, what needs a look, what is unknown.
export function toneOf(e: Event): "bad" | "warn" | "odd" | "soft" | "live" {
  const d = (e.data ?? {}) as { status?: string; success?: boolean; task?: { state?: string } };
  const state = d.status ?? d.task?.state;
  if (e.type === "tool.unknown" || state === "unknown") return "odd";
  if (bad.test(e.type) || state === "failed" || state === "error" || state === "timeout" || (e.type === "reason.completed" && d.success === false)) return "bad";
  if (warn.test(e.type)) return "warn";
  return e.type.startsWith("turn.") ? "live" : "soft";
}
