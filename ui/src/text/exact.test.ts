import { expect, test } from "vitest";
import { indented, memberText, visible } from "./exact";

test("a member is cut out as it stands: large numbers, members that occur twice, and strings with signs of JSON", () => {
  const body = '{"id":"x", "args" : {"n":12345678901234567890,"a":1,"a":2,"s":"}],\\"{"} ,"more":[1,2]}\n';
  expect(memberText(body, "args")).toBe('{"n":12345678901234567890,"a":1,"a":2,"s":"}],\\"{"}');
  expect(memberText(body, "more")).toBe("[1,2]");
  expect(memberText(body, "id")).toBe('"x"');
  expect(memberText(body, "none")).toBeUndefined();
  expect(memberText("[1]", "args")).toBeUndefined();
  expect(memberText('{"a":true,"b":null}', "b")).toBe("null");
});

test("a member of an inner object is not taken for one of the outer object", () => {
  expect(memberText('{"inner":{"args":{"a":1}},"args":{"a":2}}', "args")).toBe('{"a":2}');
});

test("the indented text keeps numbers and order, and says the same", () => {
  const json = '{"n":12345678901234567890,"b":[],"c":{},"d":[1,{"x":"a:b,{"}],"html":"\\u003cb\\u003e"}';
  const text = indented(json);
  expect(text).toBe('{\n  "n": 12345678901234567890,\n  "b": [],\n  "c": {},\n  "d": [\n    1,\n    {\n      "x": "a:b,{"\n    }\n  ],\n  "html": "<b>"\n}');
  expect(JSON.parse(text)).toEqual(JSON.parse(json));
});

test("a value of 64 levels is no error, and stays narrow", () => {
  const deep = '{"a":'.repeat(64) + "1" + "}".repeat(64);
  const text = indented(deep);
  expect(JSON.parse(text)).toEqual(JSON.parse(deep));
  expect(Math.max(...text.split("\n").map((l) => l.length))).toBeLessThan(64);
});

test("hidden characters are escapes that mean the same", () => {
  const value = { a: "x\u202egpj\u200b\u00a0\u2066\ufe0f\u{e0041}z", b: "\u001b[31m" };
  const text = indented(JSON.stringify(value));
  expect(text).not.toMatch(/[\u202e\u200b\u00a0\u2066\ufe0f]/u);
  expect(text).toContain("\\u202e");
  expect(JSON.parse(text)).toEqual(value);
  expect(visible("tab\tline\nü漢")).toBe("tab\tline\nü漢");
});
