import type { Task } from "../event/types";
import { duration } from "../text/text";

const tolerance = 1500; // of the read itself, and of the time in the response

export type Beat = { tone: "soft" | "warn" | "bad"; words: string };

// heartbeat says how long ago a worker confirmed a running task, at the moment of the read. Late is one
// interval or more, lost two.
export function heartbeat(task: Task, readAt: number, intervalMs: number): Beat | undefined {
  if (task.state !== "running" || task.kind === "monitor") return undefined;
  if (!task.heartbeat_at || !readAt) return undefined;
  const age = Math.max(0, readAt - Date.parse(task.heartbeat_at));
  const late = age - tolerance;
  if (intervalMs > 0 && late >= 2 * intervalMs) return { tone: "bad", words: `no heartbeat for ${duration(age)}` };
  if (intervalMs > 0 && late >= intervalMs) return { tone: "warn", words: `heartbeat late, ${duration(age)}` };
  return { tone: "soft", words: age < 5000 ? "heartbeat now" : `heartbeat ${duration(age)} ago` };
}
