import { expect, test } from "vitest";
import { command, example, span } from "./command";
import { sectionOf, sections } from "./sections";

test("a command line is what a shell reads as the same words", () => {
  expect(command("perdure", "token", "revoke", "ci")).toBe("perdure token revoke ci");
  expect(command("perdure", "tool", "call", "add", '{"a": 2}')).toBe(`perdure tool call add '{"a": 2}'`);
  expect(command("perdure", false, undefined, null, "")).toBe("perdure ''");
});

test("arguments have the form of their schema", () => {
  const properties = { a: { type: "number" }, b: { type: ["string", "null"] }, c: { enum: ["x", "y"] }, d: { type: "boolean" } };
  expect(example({ properties, required: ["a", "b", "c"] })).toEqual({ a: 0, b: "", c: "x" });
  expect(example(undefined)).toEqual({});
  expect(example({ required: ["unknown"] })).toEqual({ unknown: "" });
});

test("spans of time", () => {
  expect([-1, 0, 5e8, 3e10, 6e11, 864e11].map(span)).toEqual(["never", "default", "500 ms", "30 s", "10 min", "24 h"]);
});

test("sections have different ids", () => {
  expect(new Set(sections.map((s) => s.id)).size).toBe(sections.length);
  expect(sectionOf("tools")?.title).toBe("Tools");
  expect(sectionOf("nothing")).toBeUndefined();
});
