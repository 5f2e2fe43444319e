import { describe, expect, test } from "vitest";
import { inZone, localIn, momentIn, until } from "./when";

test("a moment on the clock of a zone", () => {
  expect(inZone("2026-03-29T01:00:00Z", "Europe/Berlin")).toMatch(/^Sun, Mar 29, 2026, 03:00 GMT\+2$/);
  expect(inZone("2026-03-29T22:00:00Z", "Europe/Berlin")).toMatch(/^Mon, Mar 30, 2026, 00:00 GMT\+2$/);
  expect(inZone("2026-03-29T01:00:00Z", "Not/AZone")).toMatch(/01:00 UTC$/);
});

test("a moment that has passed is due, never negative", () => {
  expect(until("2026-01-01T00:00:00Z", Date.parse("2026-01-01T01:00:00Z"))).toBe("due now");
  expect(until("2026-01-01T03:20:00Z", Date.parse("2026-01-01T01:00:00Z"))).toBe("in 2 h 20 min");
});

describe("momentIn", () => {
  test.each([
    ["2026-03-28T02:30", "Europe/Berlin", "2026-03-28T01:30:00.000Z"],
    ["2026-03-30T02:30", "Europe/Berlin", "2026-03-30T00:30:00.000Z"],
    ["2026-10-25T02:30", "Europe/Berlin", "2026-10-25T00:30:00.000Z"], // twice: the first
    ["2026-03-29T02:30", "Europe/Berlin", "2026-03-29T01:30:00.000Z"], // does not exist
    ["2026-07-01T12:00", "UTC", "2026-07-01T12:00:00.000Z"],
    ["2026-07-01T12:00", "Asia/Kathmandu", "2026-07-01T06:15:00.000Z"],
  ])("%s in %s", (local, zone, want) => expect(momentIn(local, zone)).toBe(want));
  test.each(["", "soon", "2026-13-01T00:00"])("%j is none", (local) => expect(momentIn(local, "UTC")).toBeUndefined());
  test("an unknown zone", () => expect(momentIn("2026-07-01T12:00", "Atlantis")).toBeUndefined());
  test("localIn is its inverse", () => {
    for (const at of ["2026-03-29T00:59:00.000Z", "2026-03-29T01:00:00.000Z", "2026-10-25T02:00:00.000Z"]) {
      expect(momentIn(localIn(Date.parse(at), "Europe/Berlin"), "Europe/Berlin")).toBe(at);
    }
  });
});
