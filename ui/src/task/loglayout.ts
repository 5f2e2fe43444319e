import { LogStore, type Line } from "./logstore";

const widest = 4000; // bytes of a row that is not wrapped

export type Row = Line & { line: number; first: boolean; cut: boolean };

// Layout divides the lines of a log into rows of one height. With columns, a long line is several rows;
// with 0, each line is one.
export class Layout {
  private ends = new Float64Array(1024); // rows up to and with each line
  private known = 0; // lines whose ends are final
  private dropped: number; // first offset of the store when the layout was made

  constructor(
    private store: LogStore,
    private columns: number,
  ) {
    this.dropped = store.first;
  }

  // valid reports whether the store still has the lines that the layout was made for.
  get valid(): boolean {
    return this.store.first === this.dropped || this.known === 0;
  }

  private rowsOf(i: number): number {
    const [from, to] = this.store.span(i);
    return Math.max(1, Math.ceil((to - from) / this.columns));
  }

  private measure() {
    const lines = this.store.count;
    if (lines > this.ends.length) {
      const more = new Float64Array(Math.max(lines, this.ends.length * 2));
      more.set(this.ends.subarray(0, this.known));
      this.ends = more;
    }
    let sum = this.known > 0 ? this.ends[this.known - 1]! : 0;
    for (let i = this.known; i < lines; i++) {
      sum += this.rowsOf(i);
      this.ends[i] = sum;
    }
    this.known = Math.max(0, lines - 1); // the last line may still grow
  }

  get count(): number {
    if (this.columns === 0) return this.store.count;
    if (this.store.count === 0) return 0;
    this.measure();
    return this.ends[this.store.count - 1]!;
  }

  rowOfLine(line: number): number {
    if (this.columns === 0 || line === 0) return line;
    this.measure();
    return this.ends[line - 1]!;
  }

  row(n: number): Row {
    if (this.columns === 0) {
      const [from, to] = this.store.span(n);
      const cut = to - from > widest;
      return { ...this.store.part(from, cut ? from + widest : to), line: n, first: true, cut };
    }
    let lo = 0;
    let hi = this.store.count - 1;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (this.ends[mid]! > n) hi = mid;
      else lo = mid + 1;
    }
    const [from, to] = this.store.span(lo);
    const at = n - (lo > 0 ? this.ends[lo - 1]! : 0);
    const start = from + at * this.columns;
    return { ...this.store.part(start, Math.min(to, start + this.columns)), line: lo, first: at === 0, cut: false };
  }
}
