// What one action on many tasks did.
import type { Task } from "../event/types";

const atOnce = 4;

export type Outcome = { done: number; failed: { task: Task; why: string }[] };

// runAll runs an action for each task, some at once, and counts. onStep runs after each.
export async function runAll(tasks: readonly Task[], act: (t: Task) => Promise<unknown>, onStep: (o: Outcome) => void): Promise<Outcome> {
  const rest = [...tasks];
  const sum: Outcome = { done: 0, failed: [] };
  const worker = async () => {
    for (let t = rest.shift(); t; t = rest.shift()) {
      try {
        await act(t);
        sum.done++;
      } catch (err) {
        sum.failed.push({ task: t, why: err instanceof Error ? err.message : String(err) });
      }
      onStep({ done: sum.done, failed: [...sum.failed] });
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, rest.length) }, worker));
  return sum;
}

export type Verb = "cancel" | "retry" | "resolve";

// forceable reports whether a canceled task still has a grace period that force would end.
export function forceable(t: Task): boolean {
  return (t.state === "queued" || t.state === "running" || t.state === "awaiting_input") && !!t.cancel_requested_at && !t.force_requested_at;
}

// graceLeft returns the whole seconds that a canceled task still has to stop by itself; 0: none, or it
// is not known.
export function graceLeft(t: Task, graceMs: number | undefined, now: number): number {
  if (!t.cancel_requested_at || !graceMs) return 0;
  const left = Date.parse(t.cancel_requested_at) + graceMs - now;
  return Math.ceil(Math.min(Math.max(left, 0), graceMs) / 1000);
}

// able reports whether an action applies to a task, as it is now.
export function able(verb: Verb, t: Task): boolean {
  switch (verb) {
    case "cancel":
      return (t.state === "queued" || t.state === "running" || t.state === "awaiting_input") && !t.cancel_requested_at;
    case "retry":
      return t.state === "failed" || t.state === "canceled";
    case "resolve":
      return t.state === "unknown";
  }
}

// unable says why an action does not apply to the others.
export const unable: Record<Verb, string> = {
  cancel: "have ended or are being canceled already",
  retry: "have not failed and were not canceled",
  resolve: "have a known outcome",
};

// retryWords says what a retry means for a class.
export const retryWords: Record<string, string> = {
  pure: "The tool changes nothing, so calling it again is safe.",
  idempotent: "The retry is a new call under a new key. Only the tool can tell that the effect of the first call is already there.",
  at_most_once: "The tool may have had a part of its effect before it failed. The retry has the whole effect, once more.",
};
