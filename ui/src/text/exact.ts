// The exact text of JSON. A program that parses JSON and writes it again loses what a decision may
// depend on: digits of large numbers, and members that occur twice. So a value that is approved is
// cut out of the answer of the server, and shown as it stands there.

// endOf returns the position after the JSON value that begins at at.
function endOf(json: string, at: number): number {
  let depth = 0;
  for (let i = at; i < json.length; i++) {
    const c = json[i]!;
    if (c === '"') {
      i = endOfString(json, i) - 1;
      if (depth === 0) return i + 1;
    } else if (c === "{" || c === "[") depth++;
    else if (c === "}" || c === "]") {
      if (depth === 0) return i;
      if (--depth === 0) return i + 1;
    } else if (depth === 0 && (c === "," || /\s/.test(c))) return i;
  }
  return json.length;
}

// endOfString returns the position after the string that begins at at.
function endOfString(json: string, at: number): number {
  for (let i = at + 1; i < json.length; i++) {
    if (json[i] === "\\") i++;
    else if (json[i] === '"') return i + 1;
  }
  return json.length;
}

function skipSpace(json: string, at: number): number {
  while (at < json.length && /\s/.test(json[at]!)) at++;
  return at;
}

// memberText returns the text of a member of a JSON object, or undefined where there is none. The text
// was parsed before, so it is valid.
export function memberText(json: string, name: string): string | undefined {
  let at = skipSpace(json, 0);
  if (json[at] !== "{") return undefined;
  let found: string | undefined;
  at = skipSpace(json, at + 1);
  while (at < json.length && json[at] === '"') {
    const keyEnd = endOfString(json, at);
    const key: unknown = JSON.parse(json.slice(at, keyEnd));
    const start = skipSpace(json, skipSpace(json, keyEnd) + 1);
    const end = endOf(json, start);
    if (key === name) found = json.slice(start, end);
    at = skipSpace(json, end);
    if (json[at] === ",") at = skipSpace(json, at + 1);
  }
  return found;
}

const deepest = 24; // levels that are indented; deeper ones stay at this column

// indented returns a JSON text with one member on each line. Numbers, names and their order are as they
// were. Strings are written with the fewest escapes.
export function indented(json: string): string {
  const out: string[] = [];
  let depth = 0;
  const line = () => "\n" + "  ".repeat(Math.min(depth, deepest));
  for (let i = 0; i < json.length; i++) {
    const c = json[i]!;
    if (/\s/.test(c)) continue;
    if (c === '"') {
      const end = endOfString(json, i);
      out.push(plainString(json.slice(i, end)));
      i = end - 1;
    } else if (c === "{" || c === "[") {
      const next = skipSpace(json, i + 1);
      if (json[next] === "}" || json[next] === "]") {
        out.push(c + json[next]!);
        i = next;
        continue;
      }
      depth++;
      out.push(c + line());
    } else if (c === "}" || c === "]") {
      depth--;
      out.push(line() + c);
    } else if (c === ",") out.push("," + line());
    else if (c === ":") out.push(": ");
    else out.push(c);
  }
  return visible(out.join(""));
}

function plainString(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text;
  }
}

// hidden are characters that have no sign of their own, or change how others are shown. Spaces of
// unusual widths count.
const hidden = /[^\P{C}\n\t]|[\u2028\u2029\u00a0\u115f\u1160\u3164\uffa0\u2000-\u200a\u202f\u205f\u3000\ufe00-\ufe0f]|[\u{e0100}-\u{e01ef}]/gu;

// visible writes hidden characters as escapes of JSON.
export function visible(text: string): string {
  return text.replace(hidden, (c) => [...Array(c.length).keys()].map((i) => "\\u" + c.charCodeAt(i).toString(16).padStart(4, "0")).join(""));
}
