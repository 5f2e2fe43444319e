// The text of a log in one buffer, with the start of each line. Lines are decoded when they are shown.

export type Chunk = { offset: number; stream: string; attempt: number; at: string; bytes: Uint8Array };

type Piece = { pos: number; offset: number; stream: string; attempt: number; at: string };

export type Line = { text: string; stream: string; attempt: number; at: string };

const newline = 10;
const firstSize = 1 << 16;

export const maxBytes = 96 << 20; // that a page keeps; the oldest half is dropped then

// LogStore holds what was read of a log, in order.
export class LogStore {
  private buf = new Uint8Array(firstSize);
  private used = 0;
  private starts = new Uint32Array(1024); // positions in buf
  private lines = 0; // of starts
  private pieces: Piece[] = [];
  next = 0; // offset in the log after the last byte
  first = 0; // offset of the first byte
  dropped = false;

  constructor(private limit = maxBytes) {}

  get bytes(): number {
    return this.used;
  }

  // count is the number of lines. Text after the last line feed is a line.
  get count(): number {
    return this.lines;
  }

  append(c: Chunk) {
    if (c.bytes.length === 0) return;
    if (this.used === 0 && this.pieces.length === 0) this.first = c.offset;
    if (this.used + c.bytes.length > this.limit) this.drop();
    this.room(c.bytes.length);
    const last = this.pieces.at(-1);
    const other = last !== undefined && last.stream !== c.stream; // the streams may meet within a line
    if (!last || last.stream !== c.stream || last.attempt !== c.attempt || last.at !== c.at) this.pieces.push({ pos: this.used, offset: c.offset, stream: c.stream, attempt: c.attempt, at: c.at });
    if (this.lines === 0 || other || (this.used > 0 && this.buf[this.used - 1] === newline)) this.start(this.used);
    this.buf.set(c.bytes, this.used);
    const end = this.used + c.bytes.length;
    for (let i = this.used; i < end - 1; i++) if (this.buf[i] === newline) this.start(i + 1);
    this.used = end;
    this.next = c.offset + c.bytes.length;
  }

  private start(pos: number) {
    if (this.lines === this.starts.length) {
      const more = new Uint32Array(this.starts.length * 2);
      more.set(this.starts);
      this.starts = more;
    }
    this.starts[this.lines++] = pos;
  }

  private room(n: number) {
    let size = this.buf.length;
    while (size < this.used + n) size *= 2;
    if (size === this.buf.length) return;
    const more = new Uint8Array(size);
    more.set(this.buf.subarray(0, this.used));
    this.buf = more;
  }

  // drop removes the older half of the lines.
  private drop() {
    const keep = Math.floor(this.lines / 2);
    const from = this.lines > 1 ? this.starts[keep]! : this.used;
    const piece = this.pieceAt(from);
    this.buf.copyWithin(0, from, this.used);
    this.used -= from;
    const left = this.lines > 1 ? this.lines - keep : 0;
    for (let i = 0; i < left; i++) this.starts[i] = this.starts[keep + i]! - from;
    this.lines = left;
    const rest = this.pieces.filter((p) => p.pos > from).map((p) => ({ ...p, pos: p.pos - from }));
    this.pieces = piece && this.used > 0 ? [{ ...piece, pos: 0, offset: piece.offset + from - piece.pos }, ...rest] : rest;
    this.first = this.pieces[0]?.offset ?? this.next;
    this.dropped = true;
  }

  private pieceAt(pos: number): Piece | undefined {
    let lo = 0;
    let hi = this.pieces.length - 1;
    while (lo < hi) {
      const mid = (lo + hi + 1) >> 1;
      if (this.pieces[mid]!.pos <= pos) lo = mid;
      else hi = mid - 1;
    }
    return this.pieces[lo];
  }

  // span returns where a line is in the buffer, without its line feed.
  span(i: number): [number, number] {
    const from = this.starts[i]!;
    let to = i + 1 < this.lines ? this.starts[i + 1]! : this.used;
    if (to > from && this.buf[to - 1] === newline) to--;
    if (to > from && this.buf[to - 1] === 13) to--;
    return [from, to];
  }

  // part returns a part of a line, by positions, whole characters only.
  part(from: number, to: number): Line {
    const p = this.pieceAt(from)!;
    return { text: new TextDecoder().decode(this.buf.subarray(this.whole(from), this.whole(to))), stream: p.stream, attempt: p.attempt, at: p.at };
  }

  line(i: number): Line {
    const [from, to] = this.span(i);
    return this.part(from, to);
  }

  // whole moves a position back to the start of its character.
  private whole(pos: number): number {
    let at = pos;
    while (at > 0 && at > pos - 4 && at < this.used && (this.buf[at]! & 0xc0) === 0x80) at--;
    return at;
  }

  // lineAt returns the line that contains a position.
  lineAt(pos: number): number {
    let lo = 0;
    let hi = this.lines - 1;
    while (lo < hi) {
      const mid = (lo + hi + 1) >> 1;
      if (this.starts[mid]! <= pos) lo = mid;
      else hi = mid - 1;
    }
    return lo;
  }

  // raw returns all bytes, for a download.
  raw(): Uint8Array {
    return this.buf.subarray(0, this.used);
  }

  // find returns the first line from one on whose text passes a test, or -1. It decodes many lines at once.
  find(from: number, test: RegExp, to = this.lines): number {
    const step = 4096;
    const rough = new RegExp(test.source.replaceAll("\\b", ""), test.flags); // two streams may meet within a word
    for (let i = from; i < to; i += step) {
      const end = Math.min(i + step, to);
      const [a] = this.span(i);
      const [, b] = this.span(end - 1);
      if (!rough.test(new TextDecoder().decode(this.buf.subarray(a, b)))) continue;
      for (let j = i; j < end; j++) if (test.test(this.line(j).text)) return j;
    }
    return -1;
  }
}
