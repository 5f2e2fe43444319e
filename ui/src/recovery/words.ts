import type { Schemas } from "../../client";
import { clock, duration, plural } from "../text/text";

export type Recovery = Schemas["Recovery"];

// actionWords says what crash recovery did with tasks and calls.
export const actionWords: Record<string, string> = {
  adopt: "still ran and was followed again",
  run_first: "had not started, and started",
  reattach: "was given back to its tool, which looks for its work",
  run_again: "ran again: its class allows it",
  reconcile: "was asked whether it had happened",
  stop: "was stopped as asked",
  stop_late: "was stopped: its deadline had passed",
  give_up: "was given up: no executions were left",
  unknown: "has an unknown outcome: it was not run again",
};

// plurals are the words for several.
const many = (words: string) => words.replace(/\bwas (followed|given back|asked|stopped|given up)/, "were $1").replace(/^has /, "have ").replace(/\bits\b/g, "their").replace(": it was not", ": they were not").replace("whether it had", "whether they had");

// headline says in one sentence what happened and how long it took.
export function headline(r: Recovery): string {
  const what = [r.sessions > 0 ? plural(r.sessions, "session") : "", r.tasks > 0 ? plural(r.tasks, "task") : "", r.calls > 0 ? plural(r.calls, "call") : ""].filter(Boolean);
  const ms = Math.max(0, Date.parse(r.finished_at) - Date.parse(r.started_at));
  const took = ms < 100 ? `${Math.round(ms)} ms` : duration(ms);
  const when = r.last_sign_at ? ` ${r.crashed ? "after" : "at"} ${clock(r.last_sign_at)}` : "";
  return `The server ${r.crashed ? "died" : "stopped"}${when}, ${what.join(", ") || "no work"} resumed in ${took}, ${plural(r.at_most_once_repeated, "effect")} repeated`;
}

// reasons says what was done, and why that was safe, one sentence an action.
export function reasons(r: Recovery): string[] {
  return Object.entries(r.actions)
    .sort((a, b) => b[1] - a[1])
    .map(([how, n]) => `${n} ${n === 1 ? (actionWords[how] ?? how) : many(actionWords[how] ?? how)}.`);
}
