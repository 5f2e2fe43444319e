import { expect, test } from "vitest";
import { fieldsOf, valueOf } from "./question";

test("without a schema, the answer is a text", () => {
  const form = fieldsOf(undefined);
  expect(form).toHaveLength(1);
  expect(valueOf(form, { answer: " yes " })).toEqual({ answer: "yes" });
  expect(valueOf(form, {}).fault).toContain("needed");
});

test("a schema makes a form, and its values have their types", () => {
  const form = fieldsOf({ type: "object", required: ["rooms"], properties: { rooms: { type: "integer", title: "Rooms" }, sea: { type: "boolean" }, board: { enum: ["none", "half"] }, more: { type: "array" } } });
  expect(form.map((f) => f.type)).toEqual(["integer", "boolean", "string", "json"]);
  expect(form[2]!.choices).toEqual(["none", "half"]);
  expect(valueOf(form, { rooms: "2", sea: "no", board: "half", more: "[1]" })).toEqual({ answer: { rooms: 2, sea: false, board: "half", more: [1] } });
  expect(valueOf(form, { rooms: "two" }).fault).toContain("no integer");
  expect(valueOf(form, { rooms: "2" })).toEqual({ answer: { rooms: 2 } });
});

test("schemas that are none do no harm", () => {
  for (const odd of [null, 1, "x", [], { type: 7 }, { type: "object", properties: [] }, { enum: [{}] }]) expect(fieldsOf(odd).length).toBeGreaterThan(0);
});
