// A question of a task as fields of a form, from the JSON schema of its answer.

export type Field = { name: string; label: string; about?: string; type: "string" | "number" | "integer" | "boolean" | "json"; required: boolean; choices?: string[] };

type Schema = { type?: unknown; title?: unknown; description?: unknown; enum?: unknown; properties?: unknown; required?: unknown };

const whole = "answer"; // the field of an answer that is no object
const known = ["string", "number", "integer", "boolean"];

// fieldsOf returns the fields. A schema that no form can express is one field of JSON.
export function fieldsOf(expected: unknown): Field[] {
  const s = object(expected);
  if (!s) return [{ name: whole, label: "Answer", type: "string", required: true }];
  const props = object(s.properties);
  if (s.type === "object" && props) {
    const needed = Array.isArray(s.required) ? s.required : [];
    const fields = Object.entries(props).slice(0, 30).map(([name, p]) => field(name, object(p) ?? {}, needed.includes(name)));
    if (fields.length > 0) return fields;
  }
  return [{ ...field(whole, s, true), label: text(s.title) ?? "Answer" }];
}

function object(v: unknown): (Schema & Record<string, unknown>) | undefined {
  return typeof v === "object" && v !== null && !Array.isArray(v) ? (v as Schema & Record<string, unknown>) : undefined;
}

const text = (v: unknown) => (typeof v === "string" && v ? v : undefined);

function field(name: string, s: Schema, required: boolean): Field {
  const type = known.includes(String(s.type)) ? (s.type as Field["type"]) : s.type === undefined && Array.isArray(s.enum) ? "string" : s.type === undefined ? "string" : "json";
  const choices = type === "boolean" ? ["yes", "no"] : Array.isArray(s.enum) && s.enum.every((c) => typeof c === "string" || typeof c === "number") && s.enum.length <= 30 ? s.enum.map(String) : undefined;
  return { name, label: text(s.title) ?? name, about: text(s.description), type, required, choices };
}

// valueOf returns the answer that the fields make, or what is wrong with them.
export function valueOf(fields: readonly Field[], values: Record<string, string>): { answer?: unknown; fault?: string } {
  const sum: Record<string, unknown> = {};
  for (const f of fields) {
    const given = values[f.name]?.trim() ?? "";
    if (given === "") {
      if (f.required) return { fault: `${f.label}: an answer is needed.` };
      continue;
    }
    const one = parse(f, given);
    if (one === undefined) return { fault: `${f.label}: this is no ${f.type === "json" ? "JSON" : f.type}.` };
    sum[f.name] = one;
  }
  if (fields.length === 1 && fields[0]!.name === whole) return { answer: sum[whole] };
  return { answer: sum };
}

function parse(f: Field, given: string): unknown {
  switch (f.type) {
    case "number":
      return Number.isFinite(Number(given)) ? Number(given) : undefined;
    case "integer":
      return Number.isSafeInteger(Number(given)) ? Number(given) : undefined;
    case "boolean":
      return given === "yes" ? true : given === "no" ? false : undefined;
    case "json":
      try {
        return JSON.parse(given);
      } catch {
        return undefined;
      }
  }
  return given;
}
