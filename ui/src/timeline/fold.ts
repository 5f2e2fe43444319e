import type { Approval, Event, Planned, Task } from "../event/types";

// Part is a piece of a bar: it waits for a slot (queue), works (run), waits for a person (human), or
// waits for its next attempt (gap).
export type Part = { kind: "queue" | "run" | "human" | "gap"; from: number; to: number };

export type Bar = {
  id: string;
  session: string;
  kind: "model" | "tool" | "task" | "subagent" | "pause";
  name: string;
  tool: string;
  agent: string;
  turn: string;
  state: "open" | "done" | "failed" | "canceled" | "unknown";
  parts: Part[];
  seq: number; // of its first event
  last: number; // of its last event
  taskId: string;
  callId: string;
  outlives: boolean; // it goes on after its turn
};

export type TurnMark = { id: string; session: string; from: number; to: number | undefined; seq: number };

type Data = Record<string, unknown>;

// usedTypes are the types of events that a timeline is made of.
export const usedTypes = "session.created,session.paused,session.resumed,turn.*,reason.*,llm.generation,act.started,tool.*,task.created,task.updated,task.reattached,approval.*";

// Timeline folds the events of one session to bars. Events arrive in the order of their seq. A clock
// that goes back makes a span of length 0, never a negative one.
export class Timeline {
  bars = new Map<string, Bar>();
  turns: TurnMark[] = [];
  agent = "";
  lastSeq = 0;
  end = 0; // the latest time that any event had
  private turn = "";
  private model = "";
  private open = new Set<Bar>();
  private asked = new Map<string, string>(); // approval → bar

  constructor(readonly session: string) {}

  add(e: Event) {
    if (e.seq <= this.lastSeq) return;
    this.lastSeq = e.seq;
    const at = Date.parse(e.at);
    if (Number.isNaN(at)) return;
    this.end = Math.max(this.end, at);
    this.apply(e, at, (e.data ?? {}) as Data);
  }

  private make(id: string, e: Event, change: Partial<Bar>): Bar {
    const known = this.bars.get(id);
    const bar: Bar = known ?? {
      id, session: this.session, kind: "tool", name: "", tool: "", agent: this.agent, turn: e.turn_id ?? this.turn, state: "open", parts: [],
      seq: e.seq, last: e.seq, taskId: "", callId: "", outlives: false,
    };
    Object.assign(bar, change, { last: e.seq });
    if (!known) this.bars.set(id, bar);
    return bar;
  }

  // begin ends the part that is open, and begins another one.
  private begin(bar: Bar, kind: Part["kind"], at: number) {
    const last = bar.parts.at(-1);
    if (last?.kind === kind && last.to === Infinity) return;
    const from = this.close(bar, at);
    bar.parts.push({ kind, from, to: Infinity });
    bar.state = "open";
    this.open.add(bar);
  }

  // close ends the part that is open, and returns the time from which on the bar may continue.
  private close(bar: Bar, at: number): number {
    const last = bar.parts.at(-1);
    if (!last) return at;
    if (last.to === Infinity) last.to = Math.max(last.from, at);
    return Math.max(last.to, at);
  }

  private settle(bar: Bar | undefined, state: Bar["state"], at: number) {
    if (!bar) return;
    this.close(bar, at);
    this.open.delete(bar);
    bar.state = state;
  }

  private apply(e: Event, at: number, d: Data) {
    switch (e.type) {
      case "session.created":
        this.agent = String((d.agent as Data)?.name ?? "");
        return;
      case "session.paused": {
        const bar = this.make("pause", e, { kind: "pause", name: "Paused by a person", tool: "pause", turn: "" });
        this.bars.delete("pause");
        bar.id = `pause ${e.seq}`;
        this.bars.set(bar.id, bar);
        return this.begin(bar, "human", at);
      }
      case "session.resumed":
        for (const bar of this.open) if (bar.kind === "pause") this.settle(bar, "done", at);
        return;
      case "turn.started":
        this.turn = String(d.turn_id ?? e.turn_id ?? "");
        this.turns.push({ id: this.turn, session: this.session, from: at, to: undefined, seq: e.seq });
        return;
      case "turn.completed":
      case "turn.failed":
      case "turn.canceled":
      case "turn.sealed":
        return this.turnEnded(at, e.type);
      case "reason.started":
        return this.reasoning(e, at, d);
      case "reason.completed": {
        const bar = this.bars.get(this.model);
        if (!bar) return;
        bar.last = e.seq;
        if (d.success || !d.retryable) return this.settle(bar, d.success ? "done" : "failed", at);
        return this.begin(bar, "gap", at);
      }
    }
    this.applyCall(e, at, d);
  }

  private reasoning(e: Event, at: number, d: Data) {
    const again = Number(d.attempt ?? 1) > 1 ? this.bars.get(this.model) : undefined;
    if (!again) this.model = `model ${this.session} ${e.seq}`;
    const step = d.iteration === undefined ? "" : `, step ${String(d.iteration)}`;
    const bar = this.make(this.model, e, { kind: "model", name: `Model${step}`, tool: String(d.model ?? "model") || "model" });
    const wait = Date.parse(String(d.not_before ?? ""));
    if (again && wait > at) {
      this.begin(bar, "gap", at);
      at = wait;
    }
    this.begin(bar, "run", at);
  }

  private turnEnded(at: number, type: string) {
    const mark = this.turns.findLast((t) => t.id === this.turn && t.to === undefined);
    if (mark) mark.to = Math.max(mark.from, at);
    for (const bar of this.open) {
      if (bar.kind === "pause") continue;
      if (bar.kind === "model") this.settle(bar, type === "turn.completed" ? "done" : "canceled", at);
      else if (bar.turn === this.turn) bar.outlives = true;
    }
    this.turn = "";
  }

  private applyCall(e: Event, at: number, d: Data) {
    const id = String(d.call_id ?? e.call_id ?? "");
    switch (e.type) {
      case "act.started":
        for (const p of (d.calls as Planned[] | undefined) ?? []) {
          if (p.refusal) continue;
          this.begin(this.call(p.id, e, { name: p.display_name || p.name, tool: p.name }), "queue", at);
        }
        return;
      case "tool.started":
        return this.begin(this.call(id, e, { tool: String(d.name), name: String(d.narration || d.display_name || d.name) }), "run", at);
      case "tool.call_requested":
        return this.begin(this.call(id, e, { tool: String(d.name), name: String(d.name) }), "human", at);
      case "tool.taken_over": {
        const bar = this.call(id, e, { tool: String(d.name) });
        this.close(bar, at);
        return this.begin(bar, "run", at);
      }
      case "tool.detached":
        this.call(id, e, { kind: "task", taskId: String(d.task_id), callId: id });
        return;
      case "tool.completed": {
        const bar = this.bars.get(this.key(id));
        if (!bar) return;
        bar.last = e.seq;
        if (bar.taskId) return; // a placeholder: the task has the result
        const status = String(d.status);
        return this.settle(bar, status === "success" ? "done" : status === "unknown" ? "unknown" : status === "canceled" || status === "interrupted" ? "canceled" : "failed", at);
      }
      case "tool.unknown":
        return this.settle(this.bars.get(this.key(id)), "unknown", at);
      case "tool.resolved":
        return this.settle(this.bars.get(this.key(id)), d.outcome === "succeeded" ? "done" : "failed", this.bars.get(this.key(id))?.parts.at(-1)?.to ?? at);
      case "approval.requested": {
        const a = d.approval as Approval;
        const bar = this.call(a.call_id, e, { tool: a.tool });
        if (!bar.name) bar.name = a.tool;
        this.asked.set(a.id, bar.id);
        return this.begin(bar, "human", at);
      }
      case "approval.resolved": {
        const bar = this.bars.get(this.asked.get(String(d.approval_id)) ?? "");
        if (bar && bar.state === "open") this.begin(bar, "queue", at);
        return;
      }
      case "task.created":
      case "task.updated":
        return this.task(e, at, d.task as Task);
    }
  }

  private key = (call: string) => `call ${this.session} ${call}`;

  private call(id: string, e: Event, change: Partial<Bar>): Bar {
    const bar = this.make(this.key(id), e, { callId: id, ...change });
    if (!bar.name) bar.name = bar.tool;
    return bar;
  }

  // task follows a task. Its own times count, since its events may be recorded later.
  private task(e: Event, at: number, t: Task) {
    const id = t.call_id && this.bars.has(this.key(t.call_id)) && this.bars.get(this.key(t.call_id))!.taskId === t.id ? this.key(t.call_id) : `task ${t.id}`;
    const bar = this.make(id, e, { kind: t.kind === "subagent" ? "subagent" : "task", tool: t.tool, taskId: t.id });
    bar.name = t.display_name || bar.name || t.tool;
    if (bar.parts.length === 0) this.begin(bar, "queue", early(t.created_at, at));
    if (t.turn_id) bar.turn = t.turn_id;
    if (this.turn !== bar.turn || bar.turn === "") bar.outlives ||= bar.state === "open";
    const last = bar.parts.at(-1);
    switch (t.state) {
      case "queued":
        return last?.kind === "run" ? (this.begin(bar, "gap", at), undefined) : undefined;
      case "running":
        return this.begin(bar, "run", last?.kind === "queue" ? early(t.started_at, at) : at);
      case "awaiting_input":
        return this.begin(bar, "human", at);
    }
    if (last?.kind === "queue" && t.started_at) this.begin(bar, "run", early(t.started_at, at));
    const state = ({ succeeded: "done", failed: "failed", canceled: "canceled", unknown: "unknown" } as const)[t.state as "succeeded"] ?? "done";
    if (bar.state === "open") this.settle(bar, state, early(t.finished_at, at));
    else bar.state = state;
  }
}

// early returns the time that a record names, unless it is later than the event that has it.
function early(named: string | undefined, at: number): number {
  const time = Date.parse(named ?? "");
  return Number.isNaN(time) ? at : Math.min(time, at);
}

// ended returns bars without an open end: what is open goes on until now, and what is in order of time.
export function ended(bars: Iterable<Bar>, now: number): Bar[] {
  const out: Bar[] = [];
  for (const bar of bars) {
    if (bar.parts.length === 0) continue;
    out.push({ ...bar, parts: bar.parts.map((p) => (p.to === Infinity ? { ...p, to: Math.max(p.from, now) } : p)) });
  }
  return out.sort((a, b) => a.parts[0]!.from - b.parts[0]!.from || a.seq - b.seq);
}

export const startOf = (b: Bar) => b.parts[0]!.from;
export const endOf = (b: Bar) => b.parts.at(-1)!.to;

// total returns how long the parts of one kind took.
export function total(b: Bar, kind: Part["kind"]): number {
  return b.parts.reduce((sum, p) => sum + (p.kind === kind ? p.to - p.from : 0), 0);
}
