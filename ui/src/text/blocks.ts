// Block is a part of an answer. Only what helps reading is taken from Markdown: headings, lists, quotes,
// tables and code. Links, images and HTML stay the text that they are, so an answer leads nowhere.
export type Block =
  | { kind: "text" | "heading" | "quote"; text: string }
  | { kind: "list"; start?: number; items: { text: string; level: number }[] }
  | { kind: "code"; text: string; lang: string }
  | { kind: "table"; head: string[]; rows: string[][] };

const fence = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]{0,20})[^`]*$/;
const item = /^( {0,12})(?:[-*+]|(\d{1,6})[.)])\s+(.*)$/;
const longest = 400; // characters of a line that has marks at its start
const mostColumns = 20;

// blocksOf splits a text into its blocks.
export function blocksOf(text: string): Block[] {
  const lines = text.split("\n");
  const out: Block[] = [];
  let plain: string[] = [];
  const flush = () => {
    if (plain.length > 0) out.push({ kind: "text", text: plain.join("\n") });
    plain = [];
  };
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i]!;
    const short = line.length <= longest;
    const open = short ? fence.exec(line) : null;
    if (open) {
      flush();
      const code: string[] = [];
      const mark = open[1]!;
      for (i++; i < lines.length && !(lines[i]!.trim().startsWith(mark) && lines[i]!.trim().replaceAll(mark[0]!, "") === ""); i++) code.push(lines[i]!);
      out.push({ kind: "code", text: code.join("\n"), lang: open[2] ?? "" });
      continue;
    }
    const listed = item.exec(line);
    if (listed) {
      flush();
      i = takeList(lines, i, listed, out);
      continue;
    }
    const under = lines[i + 1] ?? "";
    if (line.includes("|") && under.includes("|") && under.length <= longest && /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/.test(under)) {
      flush();
      const head = cells(line);
      const rows: string[][] = [];
      for (i += 2; i < lines.length && lines[i]!.includes("|"); i++) rows.push(cells(lines[i]!));
      i--;
      out.push({ kind: "table", head, rows });
      continue;
    }
    const heading = !short ? null : /^ {0,3}#{1,6}\s+(.*?)\s*#*$/.exec(line);
    const quote = /^ {0,3}>\s?(.*)$/.exec(line);
    if (heading || quote) {
      flush();
      const last = out.at(-1);
      if (quote && last?.kind === "quote") last.text += "\n" + quote[1]!;
      else out.push({ kind: heading ? "heading" : "quote", text: (heading ?? quote)![1]! });
      continue;
    }
    if (line.trim() === "") flush();
    else plain.push(line);
  }
  flush();
  return out;
}

// takeList reads a list from line i on, and returns its last line.
function takeList(lines: string[], i: number, first: RegExpExecArray, out: Block[]): number {
  const items: { text: string; level: number }[] = [];
  for (let found: RegExpExecArray | null = first; ; found = item.exec(lines[i]!)) {
    if (found) items.push({ text: found[3]!, level: Math.min(6, Math.floor(found[1]!.length / 2)) });
    else items.at(-1)!.text += "\n" + lines[i]!.trim();
    const next = lines[i + 1];
    if (next === undefined || !(item.test(next) || /^ {2,}[^ ]/.test(next)) || (next.length <= longest && fence.test(next))) break;
    i++;
  }
  out.push({ kind: "list", ...(first[2] ? { start: Number(first[2]) } : {}), items });
  return i;
}

function cells(line: string): string[] {
  return line.trim().replace(/^\||\|$/g, "").split("|", mostColumns).map((c) => c.trim());
}

export type Span = { kind: "text" | "code" | "strong" | "emphasis"; text: string };

const marks = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|(?<![\w*])\*([^*\s][^*\n]*)\*(?![\w*])/g;

// spansOf splits a line of text at code and emphasis.
export function spansOf(text: string): Span[] {
  const out: Span[] = [];
  let at = 0;
  for (const m of text.matchAll(marks)) {
    if (m.index > at) out.push({ kind: "text", text: text.slice(at, m.index) });
    out.push({ kind: m[1] !== undefined ? "code" : m[2] !== undefined ? "strong" : "emphasis", text: (m[1] ?? m[2] ?? m[3])! });
    at = m.index + m[0].length;
  }
  if (at < text.length) out.push({ kind: "text", text: text.slice(at) });
  return out;
}
