// Amounts of money and of other currencies. The server sends decimal numbers as text, with at most six
// decimal places; they are added as whole millionths, so that no digit is lost.
import type { Schemas } from "../../client";
import type { Look } from "../app/icon";
import { oneLine, plural } from "../text/text";
import type { Cost } from "./words";

export type CostLine = Schemas["CostLine"];
export type CostReport = Schemas["CostReport"];
export type Standing = Schemas["Standing"] & { subject: string };
export type Entry = Schemas["Entry"];

const million = 1_000_000n;

// micros returns an amount in millionths. A text that is no amount is 0.
export function micros(text: string | undefined): bigint {
  const m = /^(-?)(\d+)(?:\.(\d{1,6}))?$/.exec(text ?? "");
  if (!m) return 0n;
  const n = BigInt(m[2]!) * million + BigInt((m[3] ?? "").padEnd(6, "0"));
  return m[1] ? -n : n;
}

// decimal returns millionths as the server writes them.
export function decimal(n: bigint): string {
  const abs = n < 0n ? -n : n;
  const rest = String(abs % million).padStart(6, "0").replace(/0+$/, "");
  return `${n < 0n ? "-" : ""}${abs / million}${rest ? `.${rest}` : ""}`;
}

// amount shows an amount with its currency.
export function amount(text: string, currency: string): string {
  return `${text} ${oneLine(currency, 40).replaceAll("_", " ")}`;
}

// moneyOf returns the known cost of a line in a currency, in millionths.
export function moneyOf(line: { cost: Cost }, currency: string): bigint {
  return micros(line.cost[currency]);
}

// plus adds the figures of lines.
export function plus(lines: CostLine[]): CostLine {
  const sum: CostLine = { key: "total", model_calls: 0, input_tokens: 0, cached_tokens: 0, output_tokens: 0, tool_calls: 0, duration_ms: 0, cost: {}, unpriced: 0, failed_model_calls: 0, failed_cost: {} };
  const add = (to: Cost, from: Cost | undefined) => {
    for (const [currency, text] of Object.entries(from ?? {})) to[currency] = decimal(micros(to[currency]) + micros(text));
  };
  for (const l of lines) {
    for (const name of ["model_calls", "input_tokens", "cached_tokens", "output_tokens", "tool_calls", "duration_ms", "unpriced"] as const) sum[name] += l[name];
    sum.failed_model_calls! += l.failed_model_calls ?? 0;
    add(sum.cost, l.cost);
    add(sum.failed_cost!, l.failed_cost);
  }
  return sum;
}

// forecast continues the spending of a month at its pace so far. It needs an hour to begin with.
export function forecast(spent: bigint, since: number, until: number, now: number): bigint | undefined {
  const passed = Math.min(now, until) - since;
  if (passed < 3_600_000) return undefined;
  return (spent * BigInt(until - since)) / BigInt(passed);
}

export type Month = { name: string; since: string; until: string };

// monthOf returns a month such as 2026-11 in UTC, as costs count days. A wrong text is the current month.
export function monthOf(text: string | undefined, now: number): Month {
  const m = /^(\d{4})-(0[1-9]|1[0-2])$/.exec(text ?? "") ?? /^(\d{4})-(\d\d)/.exec(new Date(now).toISOString())!;
  const [year, month] = [Number(m[1]), Number(m[2])];
  const day = (y: number, mo: number) => new Date(Date.UTC(y, mo - 1, 1)).toISOString().slice(0, 10);
  return { name: `${m[1]}-${m[2]}`, since: day(year, month), until: day(year, month + 1) };
}

// monthBeside returns the name of the month that is n months later.
export function monthBeside(name: string, n: number): string {
  const [year, month] = name.split("-").map(Number);
  return new Date(Date.UTC(year!, month! - 1 + n, 1)).toISOString().slice(0, 7);
}

const standingLooks: Record<string, Look> = {
  active: { icon: "check", word: "Active", tone: "good" },
  warning: { icon: "hand", word: "Nearly used up", tone: "warn" },
  paused: { icon: "pause", word: "Paused", tone: "warn" },
  exhausted: { icon: "stop", word: "Used up", tone: "bad" },
};

export function standingLook(state: string): Look {
  return standingLooks[state] ?? { icon: "dot", word: state.replaceAll("_", " "), tone: "soft" };
}

// standingWords says how much of a budget is spent.
export function standingWords(b: Standing): string {
  return `${b.spent} of ${amount(b.limit, b.currency)}${b.unpriced > 0 ? `, plus ${plural(b.unpriced, "item")} of unknown price` : ""}`;
}

export function subjectWords(b: Pick<Standing, "scope" | "subject">): string {
  return `${b.scope} ${oneLine(b.subject, 60)}`;
}

export function periodWords(period: string): string {
  const [kind, rest] = oneLine(period, 60).split(" ");
  if (!kind || kind === "none") return "in total";
  if (kind === "rolling") return `in the last ${rest ?? ""}`;
  if (kind === "every") return `every ${rest ?? ""}`;
  return `each ${kind}${rest ? `, ${rest}` : ""}`;
}

// csv returns the lines of a report as comma-separated values. A text that a spreadsheet would compute
// becomes one that it shows.
export function csv(report: CostReport): string {
  const currencies = [...new Set(report.items.flatMap((l) => Object.keys(l.cost)))].sort();
  const cell = (value: string | number) => {
    const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const head = [report.group, "part", "model_calls", "input_tokens", "cached_tokens", "output_tokens", "tool_calls", "duration_ms", ...currencies, "unpriced_model_calls", "failed_model_calls"];
  const rows = report.items.map((l) => [
    l.key, l.part ?? "", l.model_calls, l.input_tokens, l.cached_tokens, l.output_tokens, l.tool_calls, l.duration_ms,
    ...currencies.map((c) => l.cost[c] ?? ""), l.unpriced, l.failed_model_calls ?? 0,
  ]);
  return [head, ...rows].map((r) => r.map(cell).join(",")).join("\r\n") + "\r\n";
}
