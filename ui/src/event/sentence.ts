import { duration, oneLine, plural } from "../text/text";
import type { Approval, Event, Message, Planned, Result, Task } from "./types";

const length = 200;

type Data = Record<string, unknown>;

// sentence says in one line what an event recorded, besides its type.
export function sentence(e: Event): string {
  return oneLine(words(e.type, (e.data ?? {}) as Data), length);
}

const text = (x: unknown) => (typeof x === "string" || typeof x === "number" ? String(x) : "");
const because = (x: unknown) => (text(x) ? `: ${text(x)}` : "");
const by = (d: Data) => `by ${text(d.by) || "nobody named"}${because(d.reason ?? d.why ?? d.note)}`;

function words(type: string, d: Data): string {
  switch (type) {
    case "session.created":
      return ["agent", (d.agent as Data)?.name, (d.agent as Data)?.model].map(text).join(" ");
    case "session.updated":
      return text(d.title);
    case "session.forked":
      return `from ${text(d.from)} at ${text(d.seq)}`;
    case "message.received":
      return said(d.message as Message);
    case "turn.started":
      return `caused by a ${text(d.cause)}`;
    case "turn.completed":
      return `${text(d.stop_reason) || "end"} after ${plural(Number(d.llm_call_count ?? 0), "model call")} and ${plural(Number(d.tool_call_count ?? 0), "call")}`;
    case "turn.failed":
      return text(d.code) + because(d.error);
    case "turn.sealed":
      return text(d.reason) + because(d.detail);
    case "reason.started":
      return `step ${text(d.iteration)}, attempt ${text(d.attempt)} ${text(d.model)}`;
    case "reason.completed":
      return d.success ? text(d.text_preview) || plural(Number(d.tool_call_count ?? 0), "call") : text(d.code) + because(d.error);
    case "reason.recovered":
      return text(d.mode);
    case "output.message.completed":
      return said(d.message as Message);
    case "llm.generation":
      return generation(d);
    case "act.started":
      return ((d.calls as Planned[]) ?? []).map((c) => c.narration || c.display_name || c.name).join(", ");
    case "act.completed":
      return `${text(d.success_count)} succeeded, ${text(d.error_count)} failed`;
    case "approval.requested": {
      const a = d.approval as Approval;
      return `${text(a?.tool)} needs approval`;
    }
    case "approval.resolved":
      return `${text(d.state)} ${by(d)}`;
    case "egress.denied":
      return text(d.host) + because(d.why);
    case "file.written":
      return `${text(d.path)}${d.removed ? " removed" : ""}`;
    case "audit.recorded":
      return `${text(d.action)} ${text(d.subject)}${because(d.purpose)}`;
  }
  return work(type, d);
}

function work(type: string, d: Data): string {
  if (type.startsWith("tool.")) return call(type, d);
  if (type.startsWith("task.")) return task(d);
  if (type.startsWith("x.")) return JSON.stringify(d.data ?? null).slice(0, 2 * length);
  if (type.startsWith("budget.")) return `${text(d.budget_id)}${because(d.why)}`;
  if (type.startsWith("schedule.")) return [d.schedule_id, (d.schedule as Data)?.id, (d.fire as Data)?.schedule_id, (d.fire as Data)?.outcome, d.why].map(text).filter(Boolean).join(" ");
  if (d.by !== undefined) return by(d);
  return text(d.why ?? d.reason ?? d.detail ?? "");
}

function call(type: string, d: Data): string {
  const name = text(d.name);
  switch (type) {
    case "tool.started":
      return `${text(d.narration) || name} · ${text(d.lane)}`;
    case "tool.completed": {
      const failed = (d.result as Result)?.error;
      const took = Number(d.duration_ms ?? 0);
      return `${text(d.narration) || name} · ${text(d.status)}${failed ? because(failed) : ""}${took > 0 ? ` · ${duration(took)}` : ""}`;
    }
    case "tool.detach_requested":
      return "is to continue in the background";
    case "tool.detach_refused":
      return `stays in the foreground${because(d.reason)}`;
    case "tool.detached":
      return `continues as ${text(d.task_id)}${because(d.reason)}`;
    case "tool.taken_over":
      return `${name} · ${text(d.how)}`;
    case "tool.resolved":
      return `${text(d.answer)} ${by(d)}`;
  }
  return name || text((d.call as Data)?.name);
}

function task(d: Data): string {
  const t = d.task as Task | undefined;
  if (t) return `${t.display_name || t.tool} · ${t.state}${because(t.summary || t.state_detail)}`;
  if (d.message) return said(d.message as Message);
  if (d.task_ids) return (d.task_ids as string[]).join(", ");
  return d.by === undefined ? text(d.receipt ?? d.how) : by(d);
}

function generation(d: Data): string {
  const usage = (d.usage ?? {}) as Data;
  return d.error ? text(d.error) : `${text(usage.input_tokens) || 0} tokens in, ${text(usage.output_tokens) || 0} out`;
}

function said(m: Message | undefined): string {
  const parts = m?.parts ?? [];
  const spoken = parts.map((p) => p.text ?? "").join(" ").trim();
  const calls = parts.flatMap((p) => (p.tool_call ? [p.tool_call.name] : []));
  return [spoken, calls.length > 0 ? `→ ${calls.join(", ")}` : ""].filter(Boolean).join(" ");
}
