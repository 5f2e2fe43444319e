import { expect, test } from "vitest";
import type { Event, Task } from "../event/types";
import { attemptsOf, lifeline, type Gap, type Step } from "./lifeline";

const task = (over: Partial<Task>): Task =>
  ({ id: "task_1", state: "running", kind: "background_tool", origin: "spawned", attempt: 1, executions: 1, delivery: "to_loop", delivered: "", created_at: "2026-01-01T00:00:00Z", started_at: "2026-01-01T00:00:05Z", ...over }) as Task;
const event = (seq: number, type: string, data: unknown = {}) => ({ seq, type, at: `2026-01-01T00:01:${String(seq % 60).padStart(2, "0")}Z`, data }) as Event;
const words = (line: (Step | Gap)[]) => line.map((s) => ("words" in s ? `(${s.words})` : s.word));

test("a task that ran and was delivered", () => {
  const line = lifeline(task({ state: "succeeded", finished_at: "2026-01-01T00:00:25Z" }), [event(3, "task.created"), event(42, "task.delivered")], 0);
  expect(words(line)).toEqual(["Queued", "(waited 5 s for a slot)", "Claimed (attempt 1)", "Ran", "Settled: done", "Delivered at seq 42"]);
  expect((line.find((s) => s.key === "ran") as Step).about).toBe("for 20 s");
});

test("a crash is a gap with a name, and each attempt says what was done", () => {
  const events = [event(3, "task.created"), event(9, "task.reattached", { attempt: 2, how: "adopt" })];
  const line = lifeline(task({ attempt: 2 }), events, Date.parse("2026-01-01T00:02:05Z"));
  expect(words(line)).toEqual(["Queued", "(waited 5 s for a slot)", "Claimed (attempt 1)", "(no worker: it had died)", "Taken over (attempt 2)", "Running", "Settled", "Delivered"]);
  expect(attemptsOf(task({ attempt: 2 }), events)[1]!.how).toContain("still ran and was followed again");
});

test("U-7: clocks that disagree make no negative time", () => {
  const line = lifeline(task({ started_at: "2026-01-01T02:00:00Z", created_at: "2026-01-01T03:00:00Z" }), [], Date.parse("2026-01-01T01:00:00Z"));
  expect(line.some((s) => ("words" in s ? s.words : (s.about ?? "")).includes("-"))).toBe(false);
});

test("what waits says for what", () => {
  const line = lifeline(task({ state: "queued", started_at: undefined }), [], Date.parse("2026-01-01T00:00:09Z"));
  expect((line[0] as Step).about).toBe("waits for a slot, for 9 s");
});
