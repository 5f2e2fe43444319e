import { line } from "../text/shell";
import { argsOf, ways, type Values, type Verb } from "./verbs";

// Document is what the page reads of the OpenAPI document.
export type Document = { paths: Record<string, Record<string, Described>> };

type Described = {
  operationId?: string;
  summary?: string;
  security?: { bearer?: string[] }[];
  parameters?: { name: string; in: string; required?: boolean; description?: string }[];
  requestBody?: { required?: boolean; content: Record<string, { example?: unknown }> };
};

// Operation is one request of the API. example is a body, if the request has one.
export type Operation = {
  method: string;
  path: string;
  scope: "read" | "write" | "approve" | "admin";
  query: { name: string; help: string }[];
  body?: { required: boolean; example: string };
};

// operationOf finds an operation by its id.
export function operationOf(doc: Document, id: string): Operation | undefined {
  for (const [path, methods] of Object.entries(doc.paths)) {
    for (const [method, op] of Object.entries(methods)) {
      if (op.operationId !== id) continue;
      const content = op.requestBody?.content["application/json"];
      return {
        method: method.toUpperCase(),
        path,
        scope: (op.security?.[0]?.bearer?.[0] ?? "read") as Operation["scope"],
        query: (op.parameters ?? []).filter((p) => p.in === "query").map((p) => ({ name: p.name, help: p.description ?? "" })),
        ...(content ? { body: { required: !!op.requestBody?.required, example: JSON.stringify(content.example ?? {}, null, 2) } } : {}),
      };
    }
  }
  return undefined;
}

// Entered is what somebody entered in the form of a verb.
export type Entered = { values: Values; query: Values; body: string };

// whole returns the one known id that begins with what was entered, as on the command line, or what was
// entered.
export function whole(entered: string, known: { id: string }[]): string {
  const text = entered.trim();
  if (!text) return entered;
  const found = known.filter(({ id }) => id.startsWith(text) || id.slice(id.indexOf("_") + 1).startsWith(text));
  return found.length === 1 ? found[0]!.id : entered;
}

// Made is a request that is ready to be sent, or why it is not.
export type Made = { method: string; path: string; body?: unknown } | { missing: string };

// requestOf makes the request of a verb.
export function requestOf(verb: Verb, op: Operation, entered: Entered): Made {
  const way = ways[verb.verb]!;
  for (const arg of argsOf(verb)) if (!arg.optional && !entered.values[arg.name]?.trim()) return { missing: arg.name };
  const parts = way.path?.(entered.values) ?? argsOf(verb).map((a) => entered.values[a.name] ?? "");
  let at = 0;
  let missing = "";
  const path = op.path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const part = (parts[at++] ?? "").trim();
    if (!part) missing = way.path ? name : (argsOf(verb)[at - 1]?.name ?? name);
    const encoded = part.split("/").map(encodeURIComponent);
    const segments = name === "path" ? encoded.filter(Boolean) : [encoded.join("%2F")];
    if (segments.some((s) => s === "." || s === "..")) missing = `${name} without . and ..`; // browsers resolve them
    return segments.join("/");
  });
  if (missing) return { missing };
  const query = new URLSearchParams(way.query?.(entered.values));
  Object.entries(entered.query).forEach(([name, value]) => value && query.set(name, value));
  const made = { method: op.method, path: path + (query.size > 0 ? `?${query.toString()}` : "") };
  if (!op.body) return made;
  if (way.body) return { ...made, body: way.body(entered.values) };
  if (!entered.body.trim()) return op.body.required ? { missing: "body" } : { ...made, body: {} };
  try {
    return { ...made, body: JSON.parse(entered.body) as unknown };
  } catch (err) {
    return { missing: `body: ${(err as Error).message}` };
  }
}

// cliOf returns the line of a verb. What only the request says becomes a line of perdure api.
export function cliOf(verb: Verb, entered: Entered, made: Made | undefined): string {
  const way = ways[verb.verb];
  const plain = !Object.values(entered.query).some(Boolean) && (!entered.body.trim() || !!way?.body);
  if (plain && !way?.args) {
    const words = verb.args.map((a) => entered.values[a.name]?.trim() ?? "").map((v, i) => v || (verb.args[i]!.optional ? "" : verb.args[i]!.name.toUpperCase()));
    return line("perdure", ...verb.verb.split(" "), ...words.filter(Boolean));
  }
  if (!made || "missing" in made) return line("perdure", ...verb.verb.split(" "));
  return line("perdure", "api", made.method, made.path, ...(made.body === undefined ? [] : ["-d", JSON.stringify(made.body)]));
}
