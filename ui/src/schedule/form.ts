// What the page for a new schedule asks for, and what it sends.
import { line } from "../text/shell";
import type { Timing } from "./preview";
import { momentIn } from "./when";

export type Form = { session: string; title: string; kind: "cron" | "once"; cron: string; at: string; zone: string; does: "message" | "tool"; message: string; tool: string; args: string; overlap: string; missed: string };

export const begin: Form = { session: "", title: "", kind: "cron", cron: "", at: "", zone: "UTC", does: "message", message: "", tool: "", args: "{}", overlap: "skip", missed: "one" };

// timingOf returns the times that a form asks for.
export function timingOf(f: Form): Timing {
  return f.kind === "cron" ? { cron_expression: f.cron.trim(), timezone: f.zone } : { scheduled_at: momentIn(f.at, f.zone) ?? "", timezone: f.zone };
}

// argsOf reads the arguments of a tool. Undefined: they are no JSON object.
export function argsOf(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export function bodyOf(f: Form) {
  const action = f.does === "message" ? { message: f.message } : { tool: f.tool.trim(), args: argsOf(f.args), signal_on_completion: true };
  const { cron_expression, scheduled_at, timezone } = timingOf(f);
  return { session_id: f.session, ...(f.title.trim() ? { title: f.title.trim() } : {}), ...(cron_expression ? { cron_expression } : { scheduled_at }), timezone, overlap: f.overlap, missed: f.missed, action };
}

export function commandOf(f: Form): string {
  const t = timingOf(f);
  return line(
    "perdure", "schedule", "create", ...(t.cron_expression ? [t.cron_expression, "--tz", f.zone] : ["--at", t.scheduled_at ?? ""]),
    "--session", f.session || "last", ...(f.does === "message" ? ["--message", f.message] : ["--tool", f.tool.trim(), "--args", f.args]),
    ...(f.title.trim() ? ["--title", f.title.trim()] : []), ...(f.overlap !== "skip" ? ["--overlap", f.overlap] : []), ...(f.missed !== "one" ? ["--missed", f.missed] : []),
  );
}
