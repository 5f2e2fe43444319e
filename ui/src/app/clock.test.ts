import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { learnTime, serverNow } from "./clock";

const answer = (at: number | string) => new Response(null, { headers: { Date: typeof at === "string" ? at : new Date(at).toUTCString() } });

beforeEach(() => vi.useFakeTimers({ now: Date.UTC(2026, 0, 1, 12, 0, 0, 700) }));
afterEach(() => vi.useRealTimers());

test("a clock that is right is not corrected", () => {
  learnTime(answer(Date.now()));
  expect(serverNow()).toBe(Date.now());
});

test.each([-3_600_000, 3_600_000])("a clock that is %i ms off is corrected to a second", (off) => {
  learnTime(answer(Date.now() + off));
  expect(Math.abs(serverNow() - (Date.now() + off))).toBeLessThanOrEqual(1000);
  learnTime(answer("nonsense"));
  learnTime(new Response(null));
  expect(Math.abs(serverNow() - (Date.now() + off))).toBeLessThanOrEqual(1000);
  learnTime(answer(Date.now()));
  expect(serverNow()).toBe(Date.now());
});
