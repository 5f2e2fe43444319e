import { expect, test } from "vitest";
import { tickAt, ticksOf, tickWords } from "./ticks";
import type { CallEntry, Entry, NoteEntry } from "./transcript";

const end = (n: number, tone: NoteEntry["tone"] = "plain"): Entry => ({ kind: "note", id: `end ${n}`, tone, text: "", detail: "", at: "", turn: `turn_${n}` });
const call = (state: CallEntry["state"]) => ({ kind: "call", id: state, state }) as CallEntry;
const note: Entry = { kind: "note", id: "n", tone: "bad", text: "a request was denied", detail: "", at: "" };

test("each turn has a tick, in the colour of what needs attention most", () => {
  const ticks = ticksOf([note, end(1), call("success"), end(2, "bad"), call("unknown"), end(3), call("asks"), call("running")], true, 150);
  expect(ticks.map((t) => [t.at, t.end, t.tone])).toEqual([[0, 2, "soft"], [2, 4, "bad"], [4, 6, "odd"], [6, 8, "warn"]]);
  expect(ticks.map(tickWords)).toEqual(["Turn 1, ended", "Turn 2, failed", "Turn 3, outcome unknown", "Turn 4, needs you"]);
  expect([0, 1, 3, 7, 99].map((i) => tickAt(ticks, i))).toEqual([0, 0, 1, 3, 3]);
});

test("a long transcript has no more ticks than there is room for, and loses no failure", () => {
  const ticks = ticksOf(Array.from({ length: 10_000 }, (_, i) => end(i, i === 7777 ? "bad" : "plain")), false, 150);
  expect(ticks.length).toBeLessThanOrEqual(150);
  expect(ticks.filter((t) => t.tone === "bad")).toHaveLength(1);
  expect(ticks[0]!.first).toBe(1);
  expect(ticks.at(-1)!.last).toBe(10_000);
  for (let i = 1; i < ticks.length; i++) expect(ticks[i]!.at).toBe(ticks[i - 1]!.end);
});

test("an empty transcript, and one whose turn has no entry yet, have no tick", () => {
  expect(ticksOf([], true, 150)).toEqual([]);
  expect(ticksOf([end(1)], true, 150)).toHaveLength(1);
});
