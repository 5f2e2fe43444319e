import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { Event } from "../event/types";
import { ended, endOf, startOf, Timeline, total } from "./fold";
import { newScale, ticks } from "./scale";
import { nameOf } from "./words";

const folder = new URL("../../../testdata/journals/", import.meta.url);
const journal = (name: string) => readFileSync(new URL(name, folder), "utf8").trim().split("\n").map((l) => JSON.parse(l) as Event);
const files = readdirSync(folder).filter((f) => f.endsWith(".jsonl"));

function fold(events: Event[], now = 0) {
  const t = new Timeline("s");
  events.forEach((e) => t.add(e));
  return { t, bars: ended(t.bars.values(), Math.max(now, t.end)) };
}

test("a model call that is tried again is one bar with gaps", () => {
  const { bars } = fold(journal("0001-provider-error.jsonl"));
  const model = bars.filter((b) => b.kind === "model");
  expect(model).toHaveLength(1);
  expect(model[0]).toMatchObject({ state: "done" });
  expect(model[0]!.parts.map((p) => p.kind)).toEqual(["run", "gap", "run", "gap", "run"]);
  expect(nameOf(model[0]!)).toMatch(/^Model, step 1, model call, ran .*, waited to try again .*, done$/);
});

test("a task that outlives its turn crosses the end of the turn", () => {
  const { t, bars } = fold(journal("0001-background-run.jsonl"));
  const task = bars.find((b) => b.kind === "task")!;
  expect(task).toMatchObject({ name: "Build", tool: "bash", state: "done", outlives: true });
  expect(startOf(task)).toBeLessThan(t.turns[0]!.to!);
  expect(endOf(task)).toBeGreaterThan(t.turns[0]!.to!);
});

test("an unknown outcome that was resolved, and calls that were interrupted", () => {
  expect(fold(journal("0001-unknown-outcome.jsonl").filter((e) => e.type !== "tool.resolved")).bars.find((b) => b.kind === "tool")).toMatchObject({ state: "unknown" });
  expect(fold(journal("0001-unknown-outcome.jsonl")).bars.find((b) => b.kind === "tool")).toMatchObject({ state: "done" });
  expect(fold(journal("0001-interrupt.jsonl")).bars.filter((b) => b.state === "canceled").length).toBeGreaterThan(0);
});

const at = (seq: number, ms: number, type: string, data: object): Event => ({ v: 1, id: `event_${seq}`, seq, type, at: new Date(ms).toISOString(), session_id: "s", data }) as Event;

test("an approval is a wait of a person between two waits for a slot", () => {
  const { bars } = fold([
    at(1, 0, "turn.started", { turn_id: "t" }),
    at(2, 1000, "act.started", { calls: [{ id: "c", name: "pay" }] }),
    at(3, 1000, "approval.requested", { approval: { id: "a", call_id: "c", tool: "pay" } }),
    at(4, 61000, "approval.resolved", { approval_id: "a", state: "approved" }),
    at(5, 62000, "tool.started", { call_id: "c", name: "pay" }),
    at(6, 65000, "tool.completed", { call_id: "c", name: "pay", status: "success" }),
  ]);
  const pay = bars[0]!;
  expect([total(pay, "human"), total(pay, "queue"), total(pay, "run")]).toEqual([60000, 1000, 3000]);
  expect(nameOf(pay)).toBe("pay, call, queued 1 s, ran 3 s, waited for a person 1 min 0 s, done");
});

test("U-7: no duration is negative, whatever the clocks say", () => {
  let seed = 7;
  const random = () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
  for (const file of files) {
    for (let round = 0; round < 40; round++) {
      const shifted = journal(file).map((e) => {
        const shift = () => Math.round((random() - 0.5) * 7.2e6);
        const text = JSON.stringify(e.data).replace(/"\d{4}-\d\d-\d\dT[^"]*Z"/g, (x) => JSON.stringify(new Date(Date.parse(JSON.parse(x) as string) + shift()).toISOString()));
        return { ...e, at: new Date(Date.parse(e.at) + shift()).toISOString(), data: JSON.parse(text) } as Event;
      });
      const now = Date.parse(shifted[0]!.at) - 3.6e6; // and a browser that is behind
      const t = new Timeline("s");
      shifted.forEach((e) => t.add(e));
      for (const bar of ended(t.bars.values(), now)) {
        for (const [i, p] of bar.parts.entries()) {
          expect(p.to - p.from, `${file} ${bar.name}`).toBeGreaterThanOrEqual(0);
          if (i > 0) expect(p.from).toBeGreaterThanOrEqual(bar.parts[i - 1]!.to);
        }
      }
      for (const turn of t.turns) expect((turn.to ?? turn.from) - turn.from).toBeGreaterThanOrEqual(0);
    }
  }
});

test("U-2: an idle span above 5 % of the width is folded, also a second one that the first one hid", () => {
  const call = (seq: number, from: number, to: number) => [
    at(seq, from, "tool.started", { call_id: `c${seq}`, name: "bash" }),
    at(seq + 1, to, "tool.completed", { call_id: `c${seq}`, name: "bash", status: "success" }),
  ];
  const minute = 60_000;
  const { bars } = fold([...call(1, 0, 10 * minute), ...call(3, 12 * 60 * minute, 12 * 60 * minute + 10 * minute), ...call(5, 13 * 60 * minute, 13 * 60 * minute + 10 * minute), ...call(7, 13 * 60 * minute + 10 * minute + 5000, 13 * 60 * minute + 20 * minute)]);
  const s = newScale(bars, 0, endOf(bars.at(-1)!));
  expect(s.folds.map((f) => Math.round((f.to - f.from) / minute))).toEqual([710, 50]);
  for (const f of s.folds) expect(s.place(f.to) - s.place(f.from)).toBeLessThan(0.05);
  expect(s.place(s.from)).toBe(0);
  expect(s.place(s.to)).toBeCloseTo(1);
  let before = -1;
  for (let t = s.from; t <= s.to; t += minute) {
    expect(s.place(t)).toBeGreaterThanOrEqual(before);
    before = s.place(t);
    if (!s.folds.some((f) => t >= f.from && t <= f.to)) expect(Math.abs(s.time(s.place(t)) - t)).toBeLessThan(1000);
  }
  expect(ticks(s, 8).every((t) => !s.folds.some((f) => t > f.from && t < f.to))).toBe(true);
});

test("10,000 calls are folded in a moment", () => {
  const events = Array.from({ length: 10_000 }, (_, i) => [
    at(4 * i + 1, i * 1000, "turn.started", { turn_id: `t${i}` }),
    at(4 * i + 2, i * 1000, "tool.started", { call_id: `c${i}`, name: "bash" }),
    at(4 * i + 3, i * 1000 + 400, "tool.completed", { call_id: `c${i}`, name: "bash", status: "success" }),
    at(4 * i + 4, i * 1000 + 500, "turn.completed", {}),
  ]).flat();
  const began = performance.now();
  const { bars } = fold(events);
  newScale(bars, 0, endOf(bars.at(-1)!));
  console.log(`folded ${bars.length} bars in ${Math.round(performance.now() - began)} ms`);
  expect(bars).toHaveLength(10_000);
});
