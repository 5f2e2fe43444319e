import { expect, test } from "vitest";
import type { Task } from "../event/types";
import { below, byCancel, byDelete, byInterrupt, lifeOf } from "./life";

const task = (id: string, more: Partial<Task> = {}) => ({ id, session_id: "s", kind: "background_tool", lane: "background", state: "running", ...more }) as Task;
const ids = (tasks: Task[]) => tasks.map((t) => t.id).sort();

test("a task lives as long as its turn, its session, or its own work", () => {
  expect(lifeOf(task("a", { kind: "subagent", lane: "foreground" }))).toBe("turn");
  expect(lifeOf(task("a", { kind: "monitor" }))).toBe("session");
  expect(lifeOf(task("a", { kind: "subagent" }))).toBe("detached");
});

const waited = task("waited", { kind: "subagent", lane: "foreground", links: { child_session_id: "c1" } });
const inside = task("inside", { session_id: "c1", kind: "subagent", links: { child_session_id: "c2" } });
const deep = task("deep", { session_id: "c2" });
const watch = task("watch", { kind: "monitor", state: "queued" });
const run = task("run", { parent_task_id: "watch" });
const loose = task("loose");
const all = [deep, run, inside, loose, waited, watch, task("over", { state: "succeeded" }), task("going", { cancel_requested_at: "2026-01-01T00:00:00Z" }), task("foreign", { session_id: "other" })];

test("a cancel reaches runs of a monitor, and the work of subagents at any depth", () => {
  expect(ids(below([waited], all))).toEqual(["deep", "inside"]);
  expect(ids(below([watch], all))).toEqual(["run"]);
});

test("an interrupt ends what the turn waits for; the rest is asked about, each piece once", () => {
  const { ends, others } = byInterrupt("s", all);
  expect(ids(ends)).toEqual(["deep", "inside", "waited"]);
  expect(ids(others)).toEqual(["loose", "watch"]);
});

test("a cancel asks about the other work of its session, not about what has ended or ends already", () => {
  const { ends, others } = byCancel(watch, all);
  expect(ids(ends)).toEqual(["run"]);
  expect(ids(others)).toEqual(["loose", "waited"]);
});

test("a deletion asks about all work of its session", () => {
  expect(ids(byDelete("s", all).others)).toEqual(["loose", "waited", "watch"]);
  expect(byDelete("empty", all)).toEqual({ ends: [], others: [] });
});
