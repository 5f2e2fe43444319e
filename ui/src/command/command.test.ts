import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { cliOf, operationOf, requestOf, whole, type Document } from "./operation";
import { search, type Found } from "./search";
import { argsOf, terminal, verbs, ways } from "./verbs";

const doc = JSON.parse(readFileSync(join(import.meta.dirname, "../../../docs/reference/openapi.json"), "utf8")) as Document;
const nothing = { values: {}, query: {}, body: "" };
const verb = (name: string) => verbs.find((v) => v.verb === name)!;

describe("every verb", () => {
  test("has a way or a reason, and not both", () => {
    const names = verbs.map((v) => v.verb);
    expect(names.filter((n) => !(n in ways) === !(n in terminal))).toEqual([]);
    expect([...Object.keys(ways), ...Object.keys(terminal)].filter((n) => !names.includes(n))).toEqual([]);
  });

  test.each(Object.keys(ways))("%s is a request that the server has", (name) => {
    const op = operationOf(doc, ways[name]!.op)!;
    expect(op, ways[name]!.op).toBeDefined();
    const values = Object.fromEntries(argsOf(verb(name)).map((a) => [a.name, a.name === "id" || a.name === "call" ? "session_1/call_1" : "x"]));
    const made = requestOf(verb(name), op, { ...nothing, values, body: op.body?.example ?? "" });
    expect(made).not.toHaveProperty("missing");
    expect((made as { path: string }).path).not.toMatch(/[{}]|\/\/|\/$/);
    expect(cliOf(verb(name), { ...nothing, values }, made)).toMatch(/^perdure /);
  });
});

describe("a request", () => {
  const make = (name: string, values: Record<string, string>, more = {}) => requestOf(verb(name), operationOf(doc, ways[name]!.op)!, { ...nothing, values, ...more });
  test("has its arguments in the path, the query and the body", () => {
    expect(make("task cancel", { task: "task_1" })).toEqual({ method: "POST", path: "/v1/tasks/task_1/cancel", body: {} });
    expect(make("session rename", { session: "session_1", title: "A b" })).toEqual({ method: "PATCH", path: "/v1/sessions/session_1", body: { title: "A b" } });
    expect(make("file cat", { session: "session_1", path: "/a b/c?" })).toEqual({ method: "GET", path: "/v1/sessions/session_1/files/a%20b/c%3F" });
    expect(make("file grep", { session: "session_1", pattern: "a&b" })).toEqual({ method: "GET", path: "/v1/sessions/session_1/files:grep?pattern=a%26b" });
    expect(make("call show", { call: "session_1/call_2" })).toEqual({ method: "GET", path: "/v1/sessions/session_1/calls/call_2" });
    expect(make("task list", {}, { query: { state: "running", tool: "" } })).toEqual({ method: "GET", path: "/v1/tasks?state=running" });
  });
  test("says what is missing", () => {
    expect(make("task cancel", { task: " " })).toEqual({ missing: "task" });
    expect(make("call show", { call: "session_1" })).toEqual({ missing: "call" });
    expect(make("task resolve", { id: "task_1" })).toEqual({ missing: "body" });
    expect(make("task resolve", { id: "task_1" }, { body: "{" })).toHaveProperty("missing");
  });
  test("cannot leave its path", () => {
    expect(make("file cat", { session: "session_1", path: "a/../../../tokens" })).toHaveProperty("missing");
    expect(make("task show", { task: ".." })).toHaveProperty("missing");
    expect(make("task show", { task: "../../v1/tokens?x=1#y" })).toEqual({ method: "GET", path: "/v1/tasks/..%2F..%2Fv1%2Ftokens%3Fx%3D1%23y" });
  });
});

describe("the line of the CLI", () => {
  const op = (name: string) => operationOf(doc, ways[name]!.op)!;
  const cli = (name: string, entered: Parameters<typeof cliOf>[1]) => cliOf(verb(name), entered, name in ways ? requestOf(verb(name), op(name), entered) : undefined);
  test("is the verb where the verb says it all, and perdure api elsewhere", () => {
    expect(cli("task cancel", nothing)).toBe("perdure task cancel");
    expect(cli("task show", nothing)).toBe("perdure task show TASK");
    expect(cli("session rename", { ...nothing, values: { session: "session_1", title: "it's" } })).toBe(`perdure session rename session_1 'it'\\''s'`);
    expect(cli("task cancel", { ...nothing, values: { task: "task_1" }, body: '{"reason":"x"}' })).toBe(`perdure api POST /v1/tasks/task_1/cancel -d '{"reason":"x"}'`);
    expect(cli("demo crash", nothing)).toBe("perdure demo crash");
  });
});

test("whole completes an id that begins as one known id does", () => {
  const known = [{ id: "session_01ab" }, { id: "session_01cd" }];
  expect(whole("01a", known)).toBe("session_01ab");
  expect(whole("session_01c", known)).toBe("session_01cd");
  for (const text of ["", "01", "session_", "x", "session_01abc"]) expect(whole(text, known)).toBe(text);
});

describe("search", () => {
  const items: Found[] = [
    { id: "/tasks", group: "Pages", title: "Tasks", about: "", icon: "task" },
    { id: "session_1", group: "Sessions", title: "Invoices of March", about: "helper", icon: "list" },
    { id: "session_2", group: "Sessions", title: "March report", about: "", icon: "list" },
    { id: "task cancel", group: "Commands", title: "task cancel", about: "Cancel a task", icon: "keys" },
  ];
  const ids = (q: string) => search(q, items).map((i) => i.id);
  test.each([
    ["march", ["session_2", "session_1"]],
    ["march inv", ["session_1"]],
    ["task", ["/tasks", "task cancel"]],
    ["task cancel", ["task cancel"]],
    ["session_1", ["session_1"]],
    ["helper", ["session_1"]],
    ["nothing of it", []],
    ["", ["/tasks"]],
    ["(((*[", []],
  ])("%j", (query, want) => {
    expect(ids(query)).toEqual(want);
  });
  test("shows at most some of each group", () => {
    const many = Array.from({ length: 1000 }, (_, i) => ({ ...items[1]!, id: `session_${i}` }));
    expect(search("march", many)).toHaveLength(8);
  });
});
