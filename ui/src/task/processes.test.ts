import { expect, test } from "vitest";
import { endWords, rows, stateWords, type Process, type Processes } from "./processes";

const one = (pid: number, parent_pid: number, cpu_ms = 0): Process => ({ pid, parent_pid, process_group: 10, state: "sleeping", threads: 1, started_at: "2026-01-01T00:00:00Z", command: "sleep 1", cpu_ms, memory_bytes: 1024 });
const look = (at: string, ...processes: Process[]): Processes => ({ task_id: "task_1", tool: "bash", kind: "background_tool", state: "running", observed_at: at, processes, count: processes.length, cpu_ms: 0, files: [] });

test("processes have their depth, and the share of a processor since the last look", () => {
  const before = look("2026-01-01T00:01:00Z", one(10, 2, 100), { ...one(12, 11, 900), started_at: "2025-01-01T00:00:00Z" });
  const now = look("2026-01-01T00:01:02Z", one(10, 2, 1100), one(11, 10), one(12, 11, 950));
  expect(rows(now, before).map((r) => [r.process.pid, r.depth, r.share])).toEqual([
    [10, 0, 0.5],
    [11, 1, undefined], // it is new
    [12, 2, undefined], // another process had its number
  ]);
  expect(rows(now).map((r) => r.share)).toEqual([undefined, undefined, undefined]);
});

test("an end says code, signal, why and when", () => {
  const end = { exit_code: 143, signal: 15, stopped: true, started_at: "2026-01-01T00:00:00Z", ended_at: "2026-01-01T00:00:20Z" };
  expect(endWords(end)).toMatch(/^Signal 15, exit code 143, after a stop was requested, at .*, after 20 s$/);
  expect(endWords({ exit_code: 0, started_at: end.started_at, ended_at: end.ended_at })).toMatch(/^Exit code 0, at /);
});

test("processes elsewhere name the machine", () => {
  expect(stateWords({ ...look("2026-01-01T00:00:00Z"), state: "elsewhere", home_id: "home_1", host: "beta" })).toContain("on beta");
});
