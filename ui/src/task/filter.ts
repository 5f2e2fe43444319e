// What the filter of the tasks page says: "tool:bash older:10m" and words that a row contains.
import type { Task } from "../event/types";

export const tabs = ["needs-you", "working", "scheduled", "done", "failed"] as const;
export type Tab = (typeof tabs)[number];

export const tabWords: Record<Tab, string> = {
  "needs-you": "Needs you",
  working: "Working",
  scheduled: "Scheduled",
  done: "Done",
  failed: "Failed or unknown",
};

const work = "background_tool,subagent,external_agent";

// tabQuery is what each tab asks the server for. A monitor only represents its schedule.
export const tabQuery: Record<Tab, { state: string; kind?: string }> = {
  "needs-you": { state: "awaiting_input" },
  working: { state: "queued,running", kind: work },
  scheduled: { state: "queued,running", kind: "monitor" },
  done: { state: "succeeded,canceled" },
  failed: { state: "failed,unknown" },
};

// tabOf returns the tab that a task belongs to.
export function tabOf(task: Task): Tab {
  switch (task.state) {
    case "awaiting_input":
      return "needs-you";
    case "queued":
    case "running":
      return task.kind === "monitor" ? "scheduled" : "working";
    case "succeeded":
    case "canceled":
      return "done";
  }
  return "failed";
}

export type Filter = { tool?: string; session?: string; older?: string; state?: string; class?: string; words: string[]; faults: string[] };

const keys = ["tool", "session", "older", "state", "class"] as const;
const states = ["queued", "running", "awaiting_input", "succeeded", "failed", "canceled", "unknown"];

// durationOf returns the milliseconds of a duration such as 1h30m, or undefined.
export function durationOf(text: string): number | undefined {
  if (!/^(\d+(\.\d+)?(ms|s|m|h))+$/.test(text)) return undefined;
  const units: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
  let sum = 0;
  for (const [, n, , unit] of text.matchAll(/(\d+(\.\d+)?)(ms|s|m|h)/g)) sum += Number(n) * units[unit!]!;
  return sum;
}

// parseFilter reads a filter. What it cannot use stands in faults, as a sentence.
export function parseFilter(text: string): Filter {
  const f: Filter = { words: [], faults: [] };
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const [, key, value] = /^([a-z_]+):(.*)$/i.exec(word) ?? [];
    const known = keys.find((k) => k === key?.toLowerCase());
    if (!key) f.words.push(word.toLowerCase());
    else if (!known) f.faults.push(`"${key}:" is no filter. There are ${keys.join(", ")}.`);
    else if (!value) f.faults.push(`"${key}:" needs a value.`);
    else if (known === "older" && durationOf(value) === undefined) f.faults.push(`"${value}" is no duration, such as 90s, 10m or 1h30m.`);
    else if (known === "state" && !states.includes(value) && !tabs.includes(value as Tab)) f.faults.push(`"${value}" is no state. There are ${[...states, ...tabs].join(", ")}.`);
    else f[known] = value;
  }
  return f;
}

// matches reports whether a row passes the filter, at now.
export function matches(f: Filter, t: Task, now: number): boolean {
  if (f.tool && t.tool !== f.tool) return false;
  if (f.session && !t.session_id.startsWith(f.session)) return false;
  if (f.class && t.effect_class !== f.class) return false;
  if (f.state && t.state !== f.state && tabOf(t) !== f.state) return false;
  if (f.older && now - Date.parse(t.created_at) < durationOf(f.older)!) return false;
  if (f.words.length === 0) return true;
  const text = `${t.display_name ?? ""} ${t.tool} ${t.summary ?? ""} ${t.state_detail ?? ""} ${t.narration ?? ""} ${t.id}`.toLowerCase();
  return f.words.every((w) => text.includes(w));
}
