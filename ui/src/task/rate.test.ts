import { expect, test } from "vitest";
import { fraction, progressWords, Rates } from "./rate";

test("a rate needs two looks and two seconds, and counts time without progress", () => {
  const r = new Rates();
  r.see("t", 10, 0);
  expect(r.perSecond("t", 5000)).toBeUndefined();
  r.see("t", 20, 1000);
  expect(r.perSecond("t", 1500)).toBeUndefined();
  expect(r.perSecond("t", 5000)).toBe(2);
  expect(r.perSecond("t", 10_000)).toBe(1);
  r.see("t", 3, 11_000); // it began anew
  expect(r.perSecond("t", 20_000)).toBeUndefined();
});

test("progress in words", () => {
  expect(progressWords({ current: 42, total: 100, unit: "files" }, 1.4)).toBe("42 of 100 files · 1.40/s · 41 s left");
  expect(progressWords({ current: 5 }, undefined)).toBe("5");
  expect(progressWords({ current: 5, total: 10 }, 0)).toBe("5 of 10");
  expect(progressWords(undefined, 3)).toBe("");
});

test("a bar never leaves its ends", () => {
  expect(fraction({ current: 12, total: 10 })).toBe(1);
  expect(fraction({ current: -1, total: 10 })).toBe(0);
  expect(fraction({ current: 1, total: 0 })).toBeUndefined();
});
