import { expect, test } from "vitest";
import type { Event } from "../event/types";
import { type CallEntry, Transcript } from "./transcript";

let seq = 0;
const event = (type: string, data: unknown): Event =>
  ({ v: 1, id: `event_${++seq}`, seq, type, at: "2026-01-01T00:00:00Z", session_id: "session_1", data }) as Event;
const fresh = () => ((seq = 0), new Transcript());

test("a delta continues, replaces and never adds a gap; offsets count bytes", () => {
  const t = fresh();
  t.add(event("output.message.started", { message_id: "m" }));
  t.frame("output.message.delta", { message_id: "m", offset: 0, delta: "grün" });
  t.frame("output.message.delta", { message_id: "m", offset: 5, delta: "!" });
  expect(t.texts.get("m")).toBe("grün!");
  t.frame("output.message.delta", { message_id: "m", offset: 2, delta: "au" });
  expect(t.texts.get("m")).toBe("grau");
  expect(t.frame("output.message.delta", { message_id: "m", offset: 99, delta: "x" })).toBe(false);
  expect(t.texts.get("m")).toBe("grau");
});

test("a page that joins in the middle gets the text so far, and the complete text at the end", () => {
  const t = fresh();
  t.add(event("turn.started", { turn_id: "turn_1" }));
  t.frame("output.message.delta", { message_id: "m", offset: 0, delta: "so far" });
  t.add(event("output.message.completed", { message: { id: "m", role: "agent", parts: [{ type: "text", text: "so far, so good" }] } }));
  expect(t.entries).toHaveLength(1);
  expect(t.entries[0]).toMatchObject({ text: "so far, so good", state: "complete" });
  expect(t.frame("output.message.delta", { message_id: "m", offset: 0, delta: "late" })).toBe(false);
});

test("an event counts once", () => {
  const t = fresh();
  const e = event("message.received", { message: { id: "m", role: "user", parts: [{ type: "text", text: "hi" }] } });
  expect([t.add(e), t.add(e)]).toEqual([true, false]);
  expect(t.entries).toHaveLength(1);
});

test("a card follows its call from the plan to the result", () => {
  const t = fresh();
  const card = () => t.entries.find((x) => x.kind === "call") as CallEntry;
  t.add(event("output.message.completed", { message: { id: "m", parts: [{ type: "tool_call", tool_call: { id: "c", name: "add", arguments: { a: 1 } } }] } }));
  t.add(event("act.started", { calls: [{ id: "c", name: "add", class: "pure", display_name: "Add" }] }));
  expect(card()).toMatchObject({ state: "planned", args: { a: 1 }, class: "pure", title: "Add" });
  t.add(event("approval.requested", { approval: { id: "appr_1", call_id: "c", tool: "add", args: { a: 1 }, state: "open" } }));
  expect(card().state).toBe("asks");
  t.add(event("approval.resolved", { approval_id: "appr_1", state: "approved", by: "ada" }));
  expect(card()).toMatchObject({ state: "planned", approval: { state: "approved", decided_by: "ada" } });
  t.add(event("tool.started", { call_id: "c", name: "add", lane: "foreground", class: "pure" }));
  expect(card()).toMatchObject({ state: "running", executions: 1 });
  t.add(event("tool.completed", { call_id: "c", name: "add", status: "success", result: { result: 3 }, duration_ms: 5 }));
  expect(card()).toMatchObject({ state: "success", result: { result: 3 } });
});

test("a call that detached ends with its task, not with its placeholder", () => {
  const t = fresh();
  t.add(event("tool.started", { call_id: "c", name: "bash", lane: "foreground", class: "at_most_once" }));
  t.add(event("tool.detached", { call_id: "c", task_id: "task_1", reason: "soft_budget" }));
  t.add(event("tool.completed", { call_id: "c", name: "bash", status: "success", result: { result: "placeholder" } }));
  expect(t.entries[0]).toMatchObject({ state: "background", taskId: "task_1" });
  t.add(event("task.updated", { task: { id: "task_1", call_id: "c", tool: "bash", state: "unknown", created_at: "2026-01-01T00:00:00Z" } }));
  expect(t.entries[0]).toMatchObject({ state: "unknown" });
});

test("clocks that disagree make no negative duration", () => {
  const t = fresh();
  t.add({ ...event("turn.started", { turn_id: "x" }), at: "2026-01-01T01:00:00Z" });
  t.add(event("turn.completed", { stop_reason: "end" }));
  expect(t.entries[0]).toMatchObject({ text: "Turn completed · 0.0 s · turn 1" });
});

test("a turn ends with its number, time, calls and tokens; the number is left out where earlier turns were not read", () => {
  const end = { stop_reason: "end", tool_call_count: 2, usage: { input_tokens: 1200, output_tokens: 34 } };
  const t = fresh();
  t.add(event("turn.started", { turn_id: "x" }));
  t.add(event("turn.completed", end));
  expect(t.entries[0]).toMatchObject({ text: "Turn completed · 0.0 s · 2 calls · 1,234 tokens · turn 1" });
  seq = 500;
  const late = new Transcript();
  late.add(event("turn.started", { turn_id: "y" }));
  late.add(event("turn.completed", end));
  expect(late.entries[0]).toMatchObject({ text: "Turn completed · 0.0 s · 2 calls · 1,234 tokens" });
});

test("a turn that continues after a provider error says so once", () => {
  const t = fresh();
  t.add(event("turn.started", { turn_id: "x" }));
  t.add(event("reason.completed", { success: false, retryable: true, error: "overloaded" }));
  t.add(event("reason.completed", { success: true }));
  t.add(event("reason.completed", { success: true }));
  expect(t.entries.map((e) => (e.kind === "note" ? e.text : ""))).toEqual(["The model call failed and is made again", "Resumed after a provider error"]);
});

test("the context is that of the last model call of the turn; a denied request is noted", () => {
  const t = fresh();
  t.add(event("llm.generation", { usage: { input_tokens: 100, output_tokens: 5 } }));
  t.add(event("llm.generation", { usage: { input_tokens: 9, output_tokens: 1 }, tool: "web_fetch" }));
  expect(t.context).toBe(105);
  t.add(event("egress.denied", { host: "evil.example", rule: "blocked", why: "not on the list" }));
  expect(t.denials).toMatchObject([{ host: "evil.example", rule: "blocked" }]);
});

test("a text that grows changes no entry, and only its readers are called, once for many pieces", () => {
  const t = fresh();
  t.add(event("tool.started", { call_id: "c", name: "bash" }));
  t.add(event("tool.started", { call_id: "other", name: "bash" }));
  const before = [...t.entries];
  const called: string[] = [];
  const end = t.texts.follow("c", () => called.push("c"));
  t.texts.follow("other", () => called.push("other"));
  for (let i = 0; i < 200; i++) expect(t.frame("tool.output.delta", { call_id: "c", delta: `line ${i}\n` })).toBe("text");
  expect(t.entries.every((e, i) => e === before[i])).toBe(true);
  t.texts.flush();
  t.texts.flush();
  expect(called).toEqual(["c"]);
  expect(t.texts.get("c")).toMatch(/line 198\nline 199\n$/);
  for (let i = 0; i < 5000; i++) t.frame("tool.output.delta", { call_id: "c", delta: `line ${i}\n` });
  expect(t.texts.get("c").length).toBeLessThanOrEqual(8000);
  end();
  t.texts.flush();
  expect(called).toEqual(["c"]);
  expect(t.frame("tool.output.delta", { call_id: "unknown", delta: "x" })).toBe(false);
});

test("the output of a call that became a task stays on its card", () => {
  const t = fresh();
  t.add(event("tool.started", { call_id: "c", name: "bash" }));
  t.frame("tool.output.delta", { call_id: "c", delta: "before\n" });
  t.add(event("tool.detached", { call_id: "c", task_id: "task_1" }));
  expect(t.frame("tool.output.delta", { task_id: "task_1", delta: "after\n" })).toBe("text");
  expect(t.texts.get("c")).toBe("before\nafter\n");
  t.frame("task.live", { task_id: "task_1", state_detail: "half" });
  expect(t.entries[0]).toMatchObject({ status: "half" });
});

test("an answer that begins again does not repeat what it had, and reading earlier events does not stop it", () => {
  const t = fresh();
  const started = event("output.message.started", { message_id: "m" });
  t.add(started);
  t.frame("output.message.delta", { message_id: "m", offset: 0, delta: "first try" });
  t.refold([started]);
  expect(t.frame("output.message.delta", { message_id: "m", offset: 9, delta: "!" })).toBe("text");
  expect(t.texts.get("m")).toBe("first try!");
  t.add(event("reason.recovered", { mode: "restart", message_id: "m" }));
  t.frame("output.message.delta", { message_id: "m", offset: 0, delta: "second" });
  expect(t.texts.get("m")).toBe("second");
});
