import { line } from "../text/shell";

// command returns a command line of the words that are texts.
export function command(...words: (string | false | undefined | null)[]): string {
  return line(...words.filter((w): w is string => typeof w === "string"));
}

// example returns arguments that have the form of a JSON schema, for a person to complete.
export function example(schema: unknown): Record<string, unknown> {
  const { properties, required } = (schema ?? {}) as { properties?: Record<string, { type?: unknown; default?: unknown; enum?: unknown[] }>; required?: string[] };
  const args: Record<string, unknown> = {};
  for (const name of required ?? []) {
    const of = properties?.[name] ?? {};
    const type = Array.isArray(of.type) ? of.type[0] : of.type;
    args[name] = of.default ?? of.enum?.[0] ?? { string: "", integer: 0, number: 0, boolean: false, array: [], object: {} }[String(type)] ?? "";
  }
  return args;
}

// span returns nanoseconds in words; what the server calls never and default is said as such.
export function span(ns: number): string {
  if (ns < 0) return "never";
  if (ns === 0) return "default";
  const s = ns / 1e9;
  return s < 1 ? `${Math.round(s * 1000)} ms` : s < 120 ? `${Math.round(s)} s` : s < 7200 ? `${Math.round(s / 60)} min` : `${Math.round(s / 3600)} h`;
}
