import { describe, expect, test, vi } from "vitest";

vi.mock("./api", () => ({ queries: {} }));
const { pressed } = await import("./keys");

describe("pressed", () => {
  const plain = { ctrlKey: false, metaKey: false, altKey: false };
  test.each([
    [{ ...plain, key: "p" }, "p"],
    [{ ...plain, key: "?" }, "?"],
    [{ ...plain, key: "P" }, "p"],
    [{ ...plain, key: "k", ctrlKey: true }, "ctrl+k"],
    [{ ...plain, key: "k", metaKey: true }, "ctrl+k"],
    [{ ...plain, key: "p", altKey: true }, ""],
    [{ ...plain, key: "Enter" }, ""],
    [{ ...plain, key: "Dead" }, ""],
  ])("%j", (event, want) => {
    expect(pressed(event)).toBe(want);
  });
});
