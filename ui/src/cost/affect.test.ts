import { describe, expect, test } from "vitest";
import type { Session } from "../event/types";
import { belongs, effectOf, isAmount } from "./affect";

describe("effectOf", () => {
  const b = { spent: "3.2", reserved: "0.3" };
  test.each([
    [{ limit: "3.5", soft: "", action: "stop" }, "stop"],
    [{ limit: "3.500001", soft: "", action: "stop" }, "none"],
    [{ limit: "3", soft: "", action: "pause" }, "pause"],
    [{ limit: "3", soft: "", action: "warn" }, "none"],
    [{ limit: "9", soft: "3.5", action: "stop" }, "pause"],
    [{ limit: "9", soft: "3.6", action: "stop" }, "none"],
  ])("%j: %s", (change, want) => expect(effectOf(b, change)).toBe(want));
  test("a new budget has spent nothing", () => {
    expect(effectOf(undefined, { limit: "1", soft: "0.5", action: "stop" })).toBe("none");
    expect(effectOf(undefined, { limit: "0", soft: "", action: "stop" })).toBe("stop");
  });
});

test("a budget applies to the sessions of its subject", () => {
  const s = { id: "s2", root_session_id: "s1", agent: { id: "a", name: "helper" } } as Session;
  expect([belongs(s, "session", "s1"), belongs(s, "session", "s3"), belongs(s, "agent", "helper"), belongs(s, "agent", "x"), belongs(s, "user", "user"), belongs(s, "org", "default")]).toEqual([
    true, false, true, false, true, true,
  ]);
});

test("amounts", () => expect(["1", "0.5", "1.1234567", "-1", "", "1e3"].map(isAmount)).toEqual([true, true, false, false, false, false]));
