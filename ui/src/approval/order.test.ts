import { expect, test } from "vitest";
import type { Approval } from "../event/types";
import { equals, hasty, hosts, byRisk } from "./order";

const at = (s: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, s)).toISOString();
const ask = (id: string, change: Partial<Approval> = {}): Approval =>
  ({ id, tool: "add", class: "pure", args_digest: "d", args: {}, permissions: [], requested_at: at(0), session_id: "s", call_id: "c", state: "open", ...change }) as Approval;

test("what must not happen twice comes first, then what waits longest", () => {
  const rows = [ask("a", { requested_at: at(5) }), ask("b", { class: "at_most_once", requested_at: at(9) }), ask("c", { class: "idempotent" }), ask("d", { requested_at: at(1) })];
  expect(rows.toSorted(byRisk).map((r) => r.id)).toEqual(["b", "c", "d", "a"]);
  expect([ask("a"), ask("b", { class: "of a later version" })].toSorted(byRisk)[0]!.id).toBe("b");
});

test("only byte-equal questions for the same permissions are equal", () => {
  const one = ask("a", { permissions: [{ kind: "tool", target: "add" }, { kind: "host", target: "x" }] });
  const open = [
    one,
    ask("b", { permissions: [{ kind: "host", target: "x", reason: "other words" }, { kind: "tool", target: "add" }] }),
    ask("c", { permissions: one.permissions, args_digest: "e" }),
    ask("d", { permissions: [{ kind: "tool", target: "add" }] }),
    ask("e", { permissions: one.permissions, tool: "sub" }),
  ];
  expect(equals(one, open).map((r) => r.id)).toEqual(["b"]);
  expect(equals(ask("x", { args_digest: "" }), [ask("y", { args_digest: "" })])).toEqual([]);
});

test("approvals within two seconds are a habit from more than 90 % of at least ten", () => {
  const quick = (n: number) => Array.from({ length: n }, (_, i) => ask(`q${i}`, { state: "approved", decided_at: at(1) }));
  const slow = ask("s", { state: "approved", decided_at: at(9) });
  expect(hasty(quick(9))).toBeUndefined();
  expect(hasty(quick(10))).toEqual({ quick: 10, of: 10 });
  expect(hasty([...quick(9), slow])).toBeUndefined();
  expect(hasty([...quick(19), slow, ask("open")])).toEqual({ quick: 19, of: 20 });
});

test("a host is the one that a browser would reach", () => {
  expect(hosts({ url: "https://user:pw@evil.example:8443/good.example" })).toEqual(["evil.example:8443"]);
  expect(hosts({ url: "https://раypal.com/" })[0]).toMatch(/^xn--/);
  expect(hosts({ a: { b: ["http://a.example", "javascript:alert(1)", "http://["] }, command: "curl https://x" })).toEqual(["a.example"]);
});
