import { expect, test } from "vitest";
import { modelName, age, duration, lastLines, oneLine, pretty, safe } from "./text";

test("hostile characters are visible and change nothing", () => {
  expect(safe("\u001b[31mred\u0000")).toBe("␛[31mred␀");
  expect(safe("a\u202egpj.exe\u2066")).toBe("a\ufffdgpj.exe\ufffd");
  expect(safe("tab\tline\n")).toBe("tab\tline\n");
});

test("one line of at most n characters", () => {
  expect(oneLine("  a\n\n b ", 10)).toBe("a b");
  expect(oneLine("x".repeat(1_000_000), 5)).toBe("xxxx…");
});

test("a value that JSON cannot hold is no error", () => {
  const ring: Record<string, unknown> = {};
  ring.ring = ring;
  expect(pretty(ring)).toBe("(cannot be shown)");
  expect(pretty(undefined)).toBe("");
});

test("durations are never negative", () => {
  expect(duration(-5000)).toBe("0.0 s");
  expect(duration(3_725_000)).toBe("1 h 2 min");
  expect(age("2026-01-01T02:00:00Z", Date.parse("2026-01-01T01:00:00Z"))).toBe("now");
});

test("a scripted model is shown by its file", () => {
  expect(modelName("scripted:scripts/dev/tour.yaml")).toBe("scripted:tour.yaml");
  expect(modelName("scripted:tour.yaml")).toBe("scripted:tour.yaml");
  expect(modelName("openai:org/model")).toBe("openai:org/model");
});

test("the last lines of a text", () => {
  const old = (text: string, n: number) => text.trimEnd().split("\n").slice(-n).join("\n");
  for (const text of ["", "\n", "a", "a\n", "a\nb\nc\n\n", "\na\nb", "\n\n\na", "a\n\n\nb"]) for (const n of [1, 2, 3, 6]) expect(lastLines(text, n)).toBe(old(text, n));
});
