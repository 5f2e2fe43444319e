import { expect, test } from "vitest";
import type { Task } from "../event/types";
import { heartbeat } from "./heartbeat";

const at = Date.parse("2026-01-01T00:00:10Z");
const beat = (heartbeat_at: string, over: Partial<Task> = {}) => heartbeat({ state: "running", kind: "background_tool", heartbeat_at, ...over } as Task, at, 2000);

test("a heartbeat is amber after one interval and red after two, in words", () => {
  expect(beat("2026-01-01T00:00:09Z")).toEqual({ tone: "soft", words: "heartbeat now" });
  expect(beat("2026-01-01T00:00:06Z")).toEqual({ tone: "warn", words: "heartbeat late, 4 s" });
  expect(beat("2026-01-01T00:00:00Z")).toEqual({ tone: "bad", words: "no heartbeat for 10 s" });
});

test("U-7: a clock that is ahead makes no negative age", () => {
  expect(beat("2026-01-01T01:00:00Z")?.words).toBe("heartbeat now");
});

test("what does not run has no heartbeat", () => {
  expect(beat("2026-01-01T00:00:00Z", { state: "queued" })).toBeUndefined();
  expect(beat("2026-01-01T00:00:00Z", { kind: "monitor" })).toBeUndefined();
});
