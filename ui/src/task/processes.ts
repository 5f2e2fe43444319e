import type { Schemas } from "../../client";
import { clock, duration, oneLine } from "../text/text";

export type Processes = Schemas["TaskProcesses"];
export type Process = Schemas["Process"];

// stateWords says what is known of the processes of a task.
export function stateWords(p: Processes): string {
  switch (p.state) {
    case "none":
      return "No process belongs to this task: its tool does its work inside the server, or somewhere else over the network.";
    case "not_started":
      return "No process: the command has not started, or its files have been removed.";
    case "running":
      return "The command runs under its supervisor, and keeps running if the server ends.";
    case "ended":
      return "The command has ended, and nothing of it runs any more.";
    case "lost":
      return "The supervisor was killed and did not record how the command ended.";
    case "elsewhere":
      return `The processes belong to another data directory${p.host ? ` on ${oneLine(p.host, 60)}` : ""}. Only a server with that directory can see them.`;
  }
  return oneLine(p.state, 60);
}

// endWords says how a command ended.
export function endWords(end: NonNullable<Processes["end"]>): string {
  const words = [end.signal ? `Signal ${end.signal}, exit code ${end.exit_code}` : `Exit code ${end.exit_code}`];
  if (end.timed_out) words.push("after its time limit");
  if (end.stopped) words.push("after a stop was requested");
  words.push(`at ${clock(end.ended_at)}, after ${duration(Date.parse(end.ended_at) - Date.parse(end.started_at))}`);
  return words.join(", ");
}

// rows returns the processes with their depth in the tree, and with the share of a processor that each
// used since an earlier look; without one the share is not known.
export function rows(now: Processes, before?: Processes): { process: Process; depth: number; share?: number }[] {
  const depths = new Map<number, number>();
  const earlier = new Map(before?.processes.map((p) => [p.pid, p]));
  const past = before ? Date.parse(now.observed_at) - Date.parse(before.observed_at) : 0;
  return now.processes.map((p) => {
    const above = depths.get(p.parent_pid);
    const depth = above === undefined ? 0 : above + 1;
    depths.set(p.pid, depth);
    const old = earlier.get(p.pid);
    const known = past > 0 && old !== undefined && old.started_at === p.started_at;
    return { process: p, depth, ...(known ? { share: Math.max(0, p.cpu_ms - old.cpu_ms) / past } : {}) };
  });
}
