// Line is one line of a comparison. kind skip stands for lines that both texts have.
export type Line = { kind: "same" | "old" | "new" | "skip"; text: string; count?: number };

const mostCells = 4_000_000; // of the table; larger texts are compared as a whole
const around = 3; // equal lines shown beside a change

// diff compares two texts by lines.
export function diff(before: string, after: string): Line[] {
  const a = linesOf(before);
  const b = linesOf(after);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const same = (lines: string[]): Line[] => lines.map((text) => ({ kind: "same", text }));
  return folded([...same(a.slice(0, start)), ...changed(a.slice(start, a.length - end), b.slice(start, b.length - end)), ...same(a.slice(a.length - end))]);
}

// linesOf splits a text. A last line without its newline differs from one with it.
function linesOf(text: string): string[] {
  if (text === "") return [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  else lines[lines.length - 1] += " (no newline at the end)";
  return lines;
}

// changed compares by the longest common subsequence.
function changed(a: string[], b: string[]): Line[] {
  const out: Line[] = [];
  const old = (text: string) => out.push({ kind: "old", text });
  const fresh = (text: string) => out.push({ kind: "new", text });
  if (a.length * b.length > mostCells) {
    a.forEach(old);
    b.forEach(fresh);
    return out;
  }
  const width = b.length + 1;
  const length = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      length[i * width + j] = a[i] === b[j] ? length[(i + 1) * width + j + 1]! + 1 : Math.max(length[(i + 1) * width + j]!, length[i * width + j + 1]!);
    }
  }
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      out.push({ kind: "same", text: a[i++]! });
      j++;
    } else if (length[(i + 1) * width + j]! >= length[i * width + j + 1]!) old(a[i++]!);
    else fresh(b[j++]!);
  }
  a.slice(i).forEach(old);
  b.slice(j).forEach(fresh);
  return out;
}

// folded replaces long runs of equal lines.
function folded(lines: Line[]): Line[] {
  const out: Line[] = [];
  for (let at = 0; at < lines.length; ) {
    if (lines[at]!.kind !== "same") {
      out.push(lines[at++]!);
      continue;
    }
    let to = at;
    while (to < lines.length && lines[to]!.kind === "same") to++;
    const head = at === 0 ? 0 : around;
    const tail = to === lines.length ? 0 : around;
    const hide = to - at - head - tail;
    if (hide > 1) out.push(...lines.slice(at, at + head), { kind: "skip", text: "", count: hide }, ...lines.slice(to - tail, to));
    else out.push(...lines.slice(at, to));
    at = to;
  }
  return out;
}
