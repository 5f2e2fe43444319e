import { expect, test } from "vitest";
import { diff } from "./diff";

const short = (before: string, after: string) => diff(before, after).map((l) => ({ same: " ", old: "-", new: "+", skip: "~" })[l.kind] + (l.count ?? l.text));

test("a changed line stands between its neighbours", () => {
  expect(short("a\nb\nc\n", "a\nB\nc\n")).toEqual([" a", "-b", "+B", " c"]);
});

test("a new file has only new lines, an empty one only old ones, and equal texts no change", () => {
  expect(short("", "a\nb\n")).toEqual(["+a", "+b"]);
  expect(short("a\n", "")).toEqual(["-a"]);
  expect(diff("a\nb\nc\n", "a\nb\nc\n").every((l) => l.kind === "same" || l.kind === "skip")).toBe(true);
});

test("a newline at the end counts", () => {
  expect(short("a", "a\n")).toEqual(["-a (no newline at the end)", "+a"]);
});

test("equal lines far from a change are folded", () => {
  const lines = Array.from({ length: 40 }, (_, i) => `line ${i}`);
  const after = lines.with(20, "changed");
  expect(short(lines.join("\n") + "\n", after.join("\n") + "\n")).toEqual(["~17", " line 17", " line 18", " line 19", "-line 20", "+changed", " line 21", " line 22", " line 23", "~16"]);
});

test("large texts that have nothing in common are compared as a whole", () => {
  const text = (word: string) => Array.from({ length: 5000 }, (_, i) => `${word} ${i}`).join("\n");
  expect(diff(text("a"), text("b"))).toHaveLength(10000);
});
