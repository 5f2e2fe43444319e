import { expect, test } from "vitest";
import { headline, reasons, type Recovery } from "./words";

const base: Recovery = { crashed: true, last_sign_at: "2026-01-01T14:02:11Z", started_at: "2026-01-01T14:02:20.0Z", finished_at: "2026-01-01T14:02:20.4Z", sessions: 1, tasks: 37, calls: 0, actions: { adopt: 30, run_again: 6, unknown: 1 }, unknown: 1, at_most_once_repeated: 0 };

test("what recovery did, in one sentence", () => {
  expect(headline(base)).toMatch(/^The server died after \d\d:\d\d:\d\d, 1 session, 37 tasks resumed in 0.4 s, 0 effects repeated$/);
  expect(headline({ ...base, crashed: false, sessions: 0, tasks: 0, calls: 2, last_sign_at: undefined })).toBe("The server stopped, 2 calls resumed in 0.4 s, 0 effects repeated");
});

test("U-7: clocks that disagree make no negative duration", () => {
  expect(headline({ ...base, finished_at: "2026-01-01T13:00:00Z" })).toContain("resumed in 0 ms");
});

test("each action says why it was safe", () => {
  expect(reasons(base)).toEqual(["30 still ran and were followed again.", "6 ran again: their class allows it.", "1 has an unknown outcome: it was not run again."]);
});
