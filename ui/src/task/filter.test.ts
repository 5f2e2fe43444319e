import { expect, test } from "vitest";
import type { Task } from "../event/types";
import { durationOf, matches, parseFilter, tabOf } from "./filter";

const task = (over: Partial<Task>) => ({ id: "task_1", tool: "bash", state: "running", kind: "background_tool", session_id: "session_ab", effect_class: "pure", created_at: "2026-01-01T00:00:00Z", ...over }) as Task;
const now = Date.parse("2026-01-01T00:20:00Z");

test("a filter of several words", () => {
  const f = parseFilter("tool:bash older:10m  Invoice");
  expect(f).toEqual({ tool: "bash", older: "10m", words: ["invoice"], faults: [] });
  expect(matches(f, task({ display_name: "Send invoices" }), now)).toBe(true);
  expect(matches(f, task({ display_name: "Send invoices", tool: "python" }), now)).toBe(false);
  expect(matches(f, task({ display_name: "Send invoices", created_at: "2026-01-01T00:15:00Z" }), now)).toBe(false);
});

test("what a filter cannot mean is said, not ignored", () => {
  expect(parseFilter("older:soon").faults[0]).toContain("no duration");
  expect(parseFilter("colour:red").faults[0]).toContain("no filter");
  expect(parseFilter("state:busy").faults[0]).toContain("no state");
  expect(parseFilter("tool:").faults[0]).toContain("needs a value");
});

test("a state is one of the task or a tab", () => {
  expect(matches(parseFilter("state:working"), task({ state: "queued" }), now)).toBe(true);
  expect(matches(parseFilter("state:queued"), task({ state: "running" }), now)).toBe(false);
});

test("durations", () => {
  expect(durationOf("1h30m")).toBe(5_400_000);
  expect(durationOf("90s")).toBe(90_000);
  expect(durationOf("h")).toBeUndefined();
  expect(durationOf("-5m")).toBeUndefined();
});

test("each state has its tab", () => {
  expect(tabOf(task({ kind: "monitor" }))).toBe("scheduled");
  expect(tabOf(task({ state: "canceled" }))).toBe("done");
  expect(tabOf(task({ state: "unknown" }))).toBe("failed");
  expect(tabOf(task({ state: "awaiting_input" }))).toBe("needs-you");
});
