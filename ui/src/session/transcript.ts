import type { Approval, Event, Message, Part, Picture, Planned, Progress, Result, Task, Usage } from "../event/types";
import { oneLine, plural, safe } from "../text/text";
import { Texts } from "./texts";

// Entry is one row of a transcript. An entry that changes is replaced by a new object.
export type Entry = MessageEntry | AnswerEntry | CallEntry | NoteEntry;

export type MessageEntry = { kind: "message"; id: string; text: string; images: Picture[]; role: string; by: string; waiting: boolean; at: string };
export type AnswerEntry = {
  kind: "answer";
  id: string;
  text: string; // while it is open, Texts has it
  state: "open" | "complete" | "interrupted";
  thinking: number;
  at: string;
};
export type CallState = "planned" | "asks" | "waits" | "running" | "background" | "success" | "error" | "timeout" | "canceled" | "interrupted" | "unknown";
export type CallEntry = {
  kind: "call";
  id: string;
  name: string;
  title: string;
  args: unknown;
  class: string;
  lane: string;
  state: CallState;
  narration: string;
  startedAt: string;
  durationMs: number;
  executions: number;
  result?: Result;
  progress?: Progress;
  status: string;
  approval?: Approval;
  taskId?: string;
  task?: Task;
  at: string;
};
export type NoteEntry = { kind: "note"; id: string; tone: "plain" | "bad" | "good"; text: string; detail: string; at: string; turn?: string }; // turn: that has ended

// Live is the state of the turn that runs.
export type Turn = { id: string; startedAt: string; step: number };

// Denial is a request of a tool that was not let out.
export type Denial = { seq: number; at: string; host: string; rule: string; why: string };

const outputChars = 4000; // of live output, of which a card shows the end; Texts has it

type Delta = { message_id: string; offset: number; delta: string };
type Data = Record<string, unknown>;

// Transcript folds the events of one session to what a reader sees. Events arrive in the order of their
// seq; live frames may be missing.
export class Transcript {
  entries: Entry[] = [];
  readonly texts = new Texts();
  turn: Turn | undefined;
  paused = false;
  context = 0; // tokens of the last model call: what the model saw, and what it wrote
  denials: Denial[] = [];
  turns = 0; // that were folded, the running one included
  lastSeq = 0;
  firstSeq = 0;
  private failed = false; // the last model call
  private index = new Map<string, number>();
  private bytes = new Map<string, number>(); // UTF-8 length of the text of open answers
  private callOf = new Map<string, string>(); // the entry of a task

  // add applies an event, unless it is known.
  add(e: Event): boolean {
    if (e.seq <= this.lastSeq) return false;
    if (this.firstSeq === 0) this.firstSeq = e.seq;
    this.lastSeq = e.seq;
    this.apply(e, e.data as Data);
    return true;
  }

  // refold folds all events from the start, as when earlier ones were read. Text that streams is kept.
  refold(events: readonly Event[]) {
    const open = this.entries.filter((x) => x.kind === "answer" && x.state === "open");
    this.entries = [];
    this.index.clear();
    this.turn = undefined;
    this.denials = [];
    this.turns = this.lastSeq = this.firstSeq = 0;
    events.forEach((e) => this.add(e));
    open.forEach((x) => this.put(x));
  }

  // frame applies a live frame, and returns what changed: an entry, or only its text in texts.
  frame(type: string, data: unknown): "entry" | "text" | false {
    const d = data as Data;
    switch (type) {
      case "output.message.delta":
        return this.delta(data as Delta);
      case "output.message.progress":
        return this.change<AnswerEntry>(String(d.message_id), { thinking: Number(d.thinking_chars ?? 0) }) && "entry";
      case "tool.progress": {
        const total = d.total as number | undefined;
        const progress = d.current === undefined ? undefined : { current: d.current as number, total, unit: d.unit as string };
        return this.change<CallEntry>(this.entryOf(d), { status: String(d.message ?? ""), ...(progress && { progress }) }) && "entry";
      }
      case "task.live":
        return (
          this.change<CallEntry>(this.entryOf(d), {
            status: String(d.state_detail ?? ""),
            ...(d.progress ? { progress: d.progress as Progress } : {}),
          }) && "entry"
        );
      case "tool.output.delta": {
        const id = this.entryOf(d);
        if (!this.index.has(id)) return false;
        this.texts.append(id, String(d.delta ?? ""), outputChars);
        return "text";
      }
    }
    return false;
  }

  // entryOf returns the id of the entry that a frame of a call, or of its task, belongs to.
  private entryOf(d: Data): string {
    return d.call_id ? String(d.call_id) : (this.callOf.get(String(d.task_id)) ?? "");
  }

  private get<T extends Entry>(id: string): T | undefined {
    const at = this.index.get(id);
    return at === undefined ? undefined : (this.entries[at] as T);
  }

  private put(entry: Entry) {
    const at = this.index.get(entry.id);
    if (at !== undefined) {
      this.entries[at] = entry;
      return;
    }
    this.index.set(entry.id, this.entries.length);
    this.entries.push(entry);
  }

  private change<T extends Entry>(id: string, change: Partial<T>): boolean {
    const known = this.get<T>(id);
    if (!known) return false;
    this.put({ ...known, ...change });
    return true;
  }

  private note(e: Event, text: string, detail = "", tone: NoteEntry["tone"] = "plain") {
    this.put({ kind: "note", id: `note ${e.seq}`, text, detail: safe(detail), tone, at: e.at });
  }

  // call changes the card of a call, and makes it where an earlier page of the journal has it.
  private call(id: string, e: Event, change: Partial<CallEntry>) {
    if (this.change<CallEntry>(id, change)) return;
    const made: CallEntry = {
      kind: "call", id, name: "", title: "", args: undefined, class: "", lane: "", state: "planned", narration: "", startedAt: "",
      durationMs: 0, executions: 0, status: "", at: e.at,
    };
    this.put({ ...made, ...change });
  }

  // delta applies a piece of the answer that streams. offset counts bytes of the text before it; what
  // comes after it is replaced.
  private delta(d: Delta): "entry" | "text" | false {
    const known = this.get<AnswerEntry>(d.message_id);
    if (known && known.state !== "open") return false;
    let text = this.texts.get(d.message_id);
    const length = this.bytes.get(d.message_id) ?? 0;
    if (d.offset > length) return false; // a piece before it was lost: the complete text will follow
    if (d.offset < length) text = new TextDecoder().decode(new TextEncoder().encode(text).subarray(0, d.offset));
    this.bytes.set(d.message_id, d.offset + new TextEncoder().encode(d.delta).length);
    this.texts.set(d.message_id, text + d.delta);
    if (known) return "text";
    this.put({ kind: "answer", id: d.message_id, text: "", state: "open", thinking: 0, at: new Date().toISOString() });
    return "entry";
  }

  private apply(e: Event, d: Data) {
    switch (e.type) {
      case "message.received":
        return this.received(e, d.message as Message);
      case "turn.started":
        this.turn = { id: String(d.turn_id), startedAt: e.at, step: 0 };
        this.turns++;
        return;
      case "turn.completed":
      case "turn.failed":
      case "turn.canceled":
      case "turn.sealed":
        return this.turnEnded(e, d);
      case "reason.started":
        if (this.turn) this.turn = { ...this.turn, step: this.turn.step + 1 };
        for (const id of (d.inputs as string[] | undefined) ?? []) this.change<MessageEntry>(id, { waiting: false });
        return;
      case "reason.completed":
        return this.reasoned(e, d);
      case "llm.generation": {
        const usage = d.usage as Usage | undefined;
        if (usage && !d.tool && !d.error) this.context = usage.input_tokens + usage.output_tokens;
        return;
      }
      case "egress.denied":
        this.denials = [...this.denials, { seq: e.seq, at: e.at, host: String(d.host ?? ""), rule: String(d.rule ?? ""), why: String(d.why ?? "") }];
        return this.note(e, `A request to ${oneLine(String(d.host ?? ""), 100)} was denied`, String(d.why ?? d.rule ?? ""), "bad");
      case "reason.recovered":
        if (d.mode === "restart") {
          this.bytes.delete(String(d.message_id));
          this.texts.set(String(d.message_id), "");
        }
        return this.note(e, "Resumed after the answer broke off", d.mode === "continue" ? "The model continued from the text it had written." : "");
      case "output.message.started":
        if (this.get(String(d.message_id))) return;
        if (!this.texts.has(String(d.message_id))) this.bytes.set(String(d.message_id), 0);
        return this.put({ kind: "answer", id: String(d.message_id), text: "", state: "open", thinking: 0, at: e.at });
      case "output.message.replaced": {
        const text = String(d.replacement ?? "");
        this.bytes.set(String(d.message_id), new TextEncoder().encode(text).length);
        if (this.get<AnswerEntry>(String(d.message_id))?.state === "open") this.texts.set(String(d.message_id), text);
        else this.change<AnswerEntry>(String(d.message_id), { text });
        return;
      }
      case "output.message.completed":
        return this.answered(e, d.message as Message, !!d.interrupted);
      case "context.compacted":
        return this.note(e, "The model sees a shorter version of what came before");
      case "session.paused":
        this.paused = true;
        return this.note(e, `Paused by ${String(d.by ?? "")}`, String(d.reason ?? ""));
      case "session.resumed":
        this.paused = false;
        return this.note(e, `Resumed by ${String(d.by ?? "")}`);
      case "budget.paused":
      case "budget.exhausted":
        return this.note(e, "A budget stopped the session", String(d.why ?? ""), "bad");
      case "session.forked":
        return this.note(e, "Forked from another session", String(d.from ?? ""));
    }
    this.applyCall(e, d);
  }

  // reasoned notes that a model call failed, and that the turn continued after it.
  private reasoned(e: Event, d: Data) {
    if (!d.success) {
      if (!d.retryable) return;
      this.failed = true;
      return this.note(e, "The model call failed and is made again", String(d.error ?? d.code ?? ""));
    }
    if (this.failed) this.note(e, "Resumed after a provider error");
    this.failed = false;
  }

  private received(e: Event, m: Message) {
    const parts = m.parts ?? [];
    this.put({
      kind: "message", id: m.id || `message ${e.seq}`, role: m.role || "user", text: textOf(parts),
      images: picturesOf(parts), by: e.actor ?? "", waiting: true, at: e.at,
    });
  }

  private answered(e: Event, m: Message, interrupted: boolean) {
    const parts = m.parts ?? [];
    const id = m.id || `answer ${e.seq}`;
    this.bytes.delete(id);
    this.texts.take(id);
    const state = interrupted || m.interrupted ? "interrupted" : "complete";
    this.put({ kind: "answer", id, text: textOf(parts), state, thinking: 0, at: this.get(id)?.at ?? e.at });
    for (const p of parts) {
      if (p.tool_call) this.call(p.tool_call.id, e, { name: p.tool_call.name, args: p.tool_call.arguments });
    }
  }

  private turnEnded(e: Event, d: Data) {
    const ms = this.turn ? Date.parse(e.at) - Date.parse(this.turn.startedAt) : Number(d.duration_ms ?? 0);
    this.turn = undefined;
    this.failed = false;
    for (const entry of this.entries) {
      if (entry.kind === "answer" && entry.state === "open") this.put({ ...entry, text: this.texts.take(entry.id), state: "interrupted" });
    }
    const id = `turn ${e.seq}`;
    const span = Math.max(0, ms);
    const usage = d.usage as Usage | undefined;
    const tokens = usage ? usage.input_tokens + usage.output_tokens : 0;
    const calls = Number(d.tool_call_count ?? 0);
    const put = (text: string, detail: string, tone: NoteEntry["tone"]) => {
      const words = [text, `${(span / 1000).toFixed(span < 10000 ? 1 : 0)} s`];
      if (calls > 0) words.push(plural(calls, "call"));
      if (tokens > 0) words.push(plural(tokens, "token").replace(String(tokens), tokens.toLocaleString("en")));
      if (this.firstSeq === 1) words.push(`turn ${this.turns}`); // else earlier ones may not have been read
      this.put({ kind: "note", id, text: words.join(" · "), detail: safe(detail), tone, at: e.at, turn: String(d.turn_id ?? e.turn_id ?? "") });
    };
    switch (e.type) {
      case "turn.completed":
        return put(d.stop_reason === "max_iterations" ? "Turn ended at its limit of steps" : "Turn completed", "", "plain");
      case "turn.failed":
        return put("Turn failed", String(d.error ?? ""), "bad");
      case "turn.canceled":
        return put(`Turn interrupted by ${String(d.by ?? "")}`, String(d.reason ?? ""), "plain");
    }
    put("Turn stopped by the runtime", String(d.detail ?? d.reason ?? ""), "bad");
  }

  private applyCall(e: Event, d: Data) {
    const id = String(d.call_id ?? e.call_id ?? "");
    switch (e.type) {
      case "act.started":
        for (const p of (d.calls as Planned[] | undefined) ?? []) this.planned(e, p);
        return;
      case "tool.started":
        return this.call(id, e, {
          name: String(d.name), class: String(d.class ?? ""), lane: String(d.lane ?? ""), state: d.lane === "background" ? "background" : "running",
          startedAt: e.at, executions: (this.get<CallEntry>(id)?.executions ?? 0) + 1, narration: safe(String(d.narration ?? "")),
        });
      case "tool.taken_over":
        this.call(id, e, { name: String(d.name), executions: Number(d.executions ?? 1) });
        return this.note(e, `A worker took over ${String(d.name)} after a crash: ${String(d.how).replaceAll("_", " ")}`);
      case "tool.detached":
        this.callOf.set(String(d.task_id), id);
        return this.call(id, e, { state: "background", taskId: String(d.task_id), lane: "background" });
      case "tool.call_requested":
        return this.call(id, e, { name: String(d.name), args: d.args, state: "waits" });
      case "tool.completed": {
        const known = this.get<CallEntry>(id);
        // the result of a call that detached is a placeholder: its task has the real one
        if (known?.state === "background" && known.taskId) return this.call(id, e, { result: d.result as Result });
        return this.call(id, e, {
          name: String(d.name), state: d.status as CallState, result: d.result as Result, durationMs: Number(d.duration_ms ?? 0),
          narration: safe(String(d.narration ?? known?.narration ?? "")),
        });
      }
      case "tool.unknown":
        return this.call(id, e, { name: String(d.name), state: "unknown" });
      case "tool.resolved":
        this.call(id, e, { state: d.outcome === "succeeded" ? "success" : "error" });
        return this.note(e, `${String(d.by)} resolved a call: ${String(d.answer).replaceAll("_", " ")}`, String(d.note ?? ""));
      case "approval.requested": {
        const approval = d.approval as Approval;
        return this.call(approval.call_id, e, { name: approval.tool, args: approval.args, state: "asks", approval });
      }
      case "approval.resolved":
        return this.decided(d);
      case "task.created":
      case "task.updated":
        return this.taskChanged(e, d.task as Task);
    }
  }

  private planned(e: Event, p: Planned) {
    const known = this.get<CallEntry>(p.id);
    this.call(p.id, e, {
      name: p.name, title: safe(p.display_name ?? ""), class: p.class ?? "", lane: p.lane ?? "", narration: safe(p.narration ?? ""),
      ...(p.refusal ? { state: "error" as const, result: p.refusal } : {}),
      ...(known ? {} : { args: undefined }),
    });
  }

  private decided(d: Data) {
    const at = this.entries.findLast((x) => x.kind === "call" && x.approval?.id === d.approval_id) as CallEntry | undefined;
    if (!at?.approval) return;
    const approval = { ...at.approval, state: String(d.state), decided_by: String(d.by ?? ""), note: d.note ? String(d.note) : undefined };
    this.change<CallEntry>(at.id, { approval, ...(at.state === "asks" ? { state: "planned" as const } : {}) });
  }

  private taskChanged(e: Event, task: Task) {
    const id = task.call_id || `task ${task.id}`;
    this.callOf.set(task.id, id);
    const state: CallState =
      task.state === "succeeded" ? "success"
      : task.state === "failed" ? "error"
      : task.state === "canceled" ? "canceled"
      : task.state === "unknown" ? "unknown"
      : "background";
    const ms = task.finished_at ? Date.parse(task.finished_at) - Date.parse(task.started_at ?? task.created_at) : 0;
    this.call(id, e, {
      task, taskId: task.id, state, lane: "background", durationMs: Math.max(0, ms), status: safe(task.state_detail ?? ""),
      startedAt: task.started_at ?? task.created_at,
      ...(this.get<CallEntry>(id)?.name ? {} : { name: task.tool }),
      ...(task.progress ? { progress: task.progress as Progress } : {}),
    });
  }
}

// picturesOf returns the images of a message.
function picturesOf(parts: Part[]): Picture[] {
  return parts.filter((p) => p.type.startsWith("image")).map((p) => ({ id: p.image?.id ?? p.image_file?.id, media_type: p.image?.media_type }));
}

// textOf joins the texts of a message.
function textOf(parts: Part[]): string {
  return parts
    .filter((p) => p.type === "text")
    .map((p) => p.text ?? "")
    .join("\n");
}
