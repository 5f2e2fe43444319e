import { expect, test } from "vitest";
import type { Task } from "../event/types";
import { able, forceable, graceLeft, runAll } from "./run";

const task = (id: string, state: string, over: Partial<Task> = {}) => ({ id, state, ...over }) as Task;

test("an action on many counts each, and one failure stops no other", async () => {
  const steps: number[] = [];
  const got = await runAll(
    Array.from({ length: 9 }, (_, i) => task(String(i), "failed")),
    async (t) => {
      if (t.id === "3") throw new Error("no");
    },
    (o) => steps.push(o.done + o.failed.length),
  );
  expect(got.done).toBe(8);
  expect(got.failed.map((f) => [f.task.id, f.why])).toEqual([["3", "no"]]);
  expect(steps.at(-1)).toBe(9);
});

test("force applies once, to a canceled task that has not ended, and its time is never negative", () => {
  const canceled = task("a", "running", { cancel_requested_at: "2026-01-01T00:00:00Z" });
  const at = Date.parse("2026-01-01T00:00:00Z");
  expect(forceable(task("a", "running"))).toBe(false);
  expect(forceable(canceled)).toBe(true);
  expect(forceable({ ...canceled, force_requested_at: "2026-01-01T00:00:01Z" } as Task)).toBe(false);
  expect(forceable({ ...canceled, state: "canceled" } as Task)).toBe(false);
  expect(graceLeft(canceled, 10_000, at + 2_500)).toBe(8);
  expect(graceLeft(canceled, 10_000, at + 60_000)).toBe(0);
  expect(graceLeft(canceled, 10_000, at - 3_600_000)).toBe(10);
  expect(graceLeft(canceled, undefined, at)).toBe(0);
});

test("what applies depends on the state", () => {
  expect(able("cancel", task("a", "running"))).toBe(true);
  expect(able("cancel", task("a", "running", { cancel_requested_at: "2026-01-01T00:00:00Z" }))).toBe(false);
  expect(able("retry", task("a", "unknown"))).toBe(false);
  expect(able("retry", task("a", "canceled"))).toBe(true);
  expect(able("resolve", task("a", "unknown"))).toBe(true);
});
