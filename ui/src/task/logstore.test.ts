import { expect, test } from "vitest";
import { LogStore, type Chunk } from "./logstore";
import { Layout } from "./loglayout";

const encoder = new TextEncoder();
let offset = 0;
const chunk = (text: string, stream = "stdout", at = "2026-01-01T00:00:00Z"): Chunk => {
  const bytes = encoder.encode(text);
  const c = { offset, stream, attempt: 1, at, bytes };
  offset += bytes.length;
  return c;
};
const texts = (s: LogStore) => Array.from({ length: s.count }, (_, i) => s.line(i).text);

test("lines over the borders of chunks, with and without an end", () => {
  const s = new LogStore();
  for (const t of ["one\ntw", "o\n", "\nthree\r\n", "fo", "ur"]) s.append(chunk(t));
  expect(texts(s)).toEqual(["one", "two", "", "three", "four"]);
});

test("each line has the stream and time of its first byte", () => {
  const s = new LogStore();
  s.append(chunk("out\n", "stdout", "2026-01-01T00:00:01Z"));
  s.append(chunk("err\n", "stderr", "2026-01-01T00:00:02Z"));
  expect(s.line(0)).toMatchObject({ stream: "stdout", at: "2026-01-01T00:00:01Z" });
  expect(s.line(1)).toMatchObject({ stream: "stderr", at: "2026-01-01T00:00:02Z" });
});

test("streams that meet within a line are rows of their own", () => {
  const s = new LogStore();
  s.append(chunk("half a li"));
  s.append(chunk("Error: no paper\n", "stderr"));
  s.append(chunk("ne\n"));
  expect(texts(s)).toEqual(["half a li", "Error: no paper", "ne"]);
  expect(s.find(0, /\berror\b/i)).toBe(1);
});

test("a log that is too long keeps its end, and says so", () => {
  const s = new LogStore(1000);
  for (let i = 0; i < 500; i++) s.append(chunk(`line ${i}\n`));
  expect(s.dropped).toBe(true);
  expect(s.bytes).toBeLessThanOrEqual(1000);
  expect(s.line(s.count - 1).text).toBe("line 499");
  expect(s.line(0).text).toMatch(/^line \d+$/);
  expect(s.next - s.first).toBe(s.bytes);
});

test("ten million lines are cheap, and found by their text", { timeout: 60_000 }, () => {
  const s = new LogStore();
  const many = "x\n".repeat(10_000);
  for (let i = 0; i < 1000; i++) s.append(chunk(many));
  s.append(chunk("Error: no such file\nlast\n"));
  expect(s.count).toBe(10_000_002);
  const rows = new Layout(s, 80);
  expect(rows.count).toBe(10_000_002);
  expect(rows.row(10_000_001).text).toBe("last");
  expect(s.find(0, /error/i)).toBe(10_000_000);
  expect(s.find(0, /nothing/)).toBe(-1);
});

test("one line of a megabyte wraps into rows of whole characters", () => {
  const s = new LogStore();
  s.append(chunk("short\n" + "é".repeat(500_000) + "\nend"));
  const rows = new Layout(s, 100);
  expect(rows.count).toBe(1 + 10_000 + 1);
  expect(rows.row(0).text).toBe("short");
  let joined = "";
  for (let i = 1; i <= 10_000; i++) joined += rows.row(i).text;
  expect(joined).toBe("é".repeat(500_000));
  expect(rows.row(10_001)).toMatchObject({ text: "end", line: 2, first: true });
  expect(rows.rowOfLine(2)).toBe(10_001);
});

test("without wrapping a row is a line, cut where it would be too wide", () => {
  const s = new LogStore();
  s.append(chunk("a".repeat(1_000_000) + "\nb\n"));
  const rows = new Layout(s, 0);
  expect(rows.count).toBe(2);
  expect(rows.row(0).text.length).toBeLessThan(5000);
  expect(rows.row(0).cut).toBe(true);
});

test("rows follow a log that grows", () => {
  const s = new LogStore();
  s.append(chunk("a"));
  const rows = new Layout(s, 4);
  expect(rows.count).toBe(1);
  s.append(chunk("bcdefgh\nx\n"));
  expect(rows.count).toBe(3);
  expect([0, 1, 2].map((i) => rows.row(i).text)).toEqual(["abcd", "efgh", "x"]);
});
