import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { chosenTypes, eventTypes, moment, readSearch, typesText } from "./filter";

test("the types of the filter are those of the catalogue", () => {
  const catalogue = readFileSync(new URL("../../../docs/reference/events.md", import.meta.url), "utf8").split("## Frames")[0]!;
  const listed = [...catalogue.matchAll(/^\| `([a-z_.]+)` \| /gm)].map((m) => m[1]!).filter((t) => t.includes("."));
  const known = Object.entries(eventTypes).flatMap(([group, types]) => types.map((t) => `${group}.${t}`));
  expect(known.toSorted()).toEqual(listed.toSorted());
});

test("a set of types becomes a short text, and back", () => {
  const all = chosenTypes("tool.*,turn.failed,x.deploy.*");
  expect(all.size).toBe(eventTypes.tool!.length + 2);
  expect(typesText(all)).toBe("turn.failed,tool.*,x.deploy.*");
  all.delete("tool.started");
  expect(typesText(all)).not.toContain("tool.*");
  expect(typesText(new Set())).toBeUndefined();
  expect(chosenTypes(undefined).size).toBe(0);
});

test("an address keeps what a page knows, and drops the rest", () => {
  expect(readSearch({ seq: 1042, types: "tool.*", of: 7, text: "", evil: "x" })).toEqual({ seq: 1042, types: "tool.*", of: "7" });
  expect(readSearch({ seq: "-3" })).toEqual({});
  expect(readSearch({ seq: "1e99" })).toEqual({});
});

test("a time is an age, a time of today, or a date", () => {
  const now = Date.parse("2026-03-01T12:00:00Z");
  expect(moment("2h", now)).toBe("2026-03-01T10:00:00.000Z");
  expect(moment("90 s", now)).toBe("2026-03-01T11:58:30.000Z");
  expect(moment("2026-02-28T23:00:00Z", now)).toBe("2026-02-28T23:00:00.000Z");
  expect(new Date(moment("09:30", now)!).getMinutes()).toBe(30);
  for (const wrong of ["", "yesterday", "25", "2026-13-45"]) expect(moment(wrong, now)).toBeUndefined();
});
