import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { curlLine, line, quote } from "./shell";

const hostile = ["", "plain", "two words", "it's", "$(id)", "`id`", "a\\b'c", "line\nbreak", "\u001b[201~; id\r", "\u202eevil\u2066", '{"a":"\u0007\'"}', "!history", "-x", "é漢字😀"];

describe("quote", () => {
  test.each(hostile)("bash reads %j back", (word) => {
    const said = execFileSync("bash", ["--norc", "-c", `LC_ALL=C.UTF-8; printf %s ${quote(word)}`], { encoding: "utf8" });
    expect(said).toBe(word);
  });
  test.each(hostile)("%j contains no character that a terminal acts on", (word) => {
    // eslint-disable-next-line no-control-regex
    expect(quote(word)).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/);
  });
});

test("line quotes each word", () => {
  expect(line("perdure", "task", "input", "task_1", "it's fine")).toBe(`perdure task input task_1 'it'\\''s fine'`);
});

describe("curlLine", () => {
  const server = "https://example.com/below/";
  test.each([
    [{ method: "GET", path: "/v1/tasks?limit=5" }, `curl -H "Authorization: Bearer $PERDURE_TOKEN" 'https://example.com/below/v1/tasks?limit=5'`],
    [{ method: "POST", path: "/v1/tasks/t/cancel" }, `curl -H "Authorization: Bearer $PERDURE_TOKEN" -X POST https://example.com/below/v1/tasks/t/cancel`],
    [{ method: "POST", path: "/v1/x", body: { a: 1 } }, `curl -H "Authorization: Bearer $PERDURE_TOKEN" https://example.com/below/v1/x -H "Content-Type: application/json" -d '{"a":1}'`],
    [{ method: "PUT", path: "/v1/x", body: {} }, `curl -H "Authorization: Bearer $PERDURE_TOKEN" -X PUT https://example.com/below/v1/x -H "Content-Type: application/json" -d '{}'`],
  ])("%j", (request, want) => {
    expect(curlLine(server, request)).toBe(want);
  });
});
