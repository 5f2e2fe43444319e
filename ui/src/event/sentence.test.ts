import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { sentence } from "./sentence";
import type { Event } from "./types";

const folder = new URL("../../../testdata/journals/", import.meta.url);
const events = readdirSync(folder)
  .filter((f) => f.endsWith(".jsonl"))
  .flatMap((f) => readFileSync(new URL(f, folder), "utf8").trim().split("\n"))
  .map((line) => JSON.parse(line) as Event);

test("every event of the stored journals has a line without holes", () => {
  expect(events.length).toBeGreaterThan(100);
  for (const e of events) expect(sentence(e), `${e.type} ${e.seq}`).not.toMatch(/undefined|NaN|\[object|null/);
});

test("a line says what happened", () => {
  const line = (type: string) => sentence(events.find((e) => e.type === type)!);
  expect(line("message.received")).toBe("Build it in the background.");
  expect(line("turn.completed")).toBe("end after 2 model calls and 1 call");
  expect(line("task.created")).toBe("Build · running");
  expect(line("tool.resolved")).toBe("happened by ada");
});

test("data of any shape has a line", () => {
  const shapes = [undefined, null, {}, [], "x", { message: {} }, { message: null, task: null, calls: null, agent: null, by: {} }];
  for (const type of new Set([...events.map((e) => e.type), "x.deploy.done", "schedule.fired", "budget.paused", "unheard.of"])) {
    for (const data of shapes) expect(typeof sentence({ type, data } as Event)).toBe("string");
  }
});

test("a line has no character that changes other text", () => {
  expect(sentence({ type: "turn.failed", data: { code: "\u202e\u001b[31m", error: "a\nb" } } as Event)).toBe("\ufffd␛[31m: a b");
});
