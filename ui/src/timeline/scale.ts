import type { Bar } from "./fold";

// Idle is a span in which nothing works. A folded one takes little width, and says how long it was.
export type Idle = { from: number; to: number };

export const foldAbove = 0.05; // of the width
const foldedWidth = 0.02;

// Scale maps times to 0…1. Times in a folded span are close together.
export type Scale = { from: number; to: number; folds: Idle[]; place: (at: number) => number; time: (place: number) => number };

// idleOf returns the spans of a range in which no bar waits for a slot, works or is tried again. Bars
// that only wait for a person count as idle: nothing would be seen of the rest of a night.
export function idleOf(bars: readonly Bar[], from: number, to: number): Idle[] {
  const busy: [number, number][] = [];
  for (const b of bars) for (const p of b.parts) if (p.kind !== "human" && p.to >= from && p.from <= to) busy.push([p.from, p.to]);
  busy.sort((a, b) => a[0] - b[0]);
  const idle: Idle[] = [];
  let at = from;
  for (const [start, end] of busy) {
    if (start > at) idle.push({ from: at, to: start });
    at = Math.max(at, end);
  }
  if (at < to) idle.push({ from: at, to });
  return idle;
}

// newScale folds each idle span that would take more than foldAbove of the width, the longest first:
// what remains becomes wider, so that a shorter span may be folded too.
export function newScale(bars: readonly Bar[], from: number, to: number): Scale {
  const length = Math.max(1, to - from);
  const folds: Idle[] = [];
  let shown = length;
  for (const gap of idleOf(bars, from, to).sort((a, b) => b.to - b.from - (a.to - a.from))) {
    const span = gap.to - gap.from;
    const free = 1 - foldedWidth * folds.length;
    if ((span / shown) * free <= foldAbove || folds.length >= 20) break;
    if (shown - span <= 0) break; // nothing else is in the range
    folds.push(gap);
    shown -= span;
  }
  folds.sort((a, b) => a.from - b.from);
  const unit = (1 - foldedWidth * folds.length) / shown;
  const place = (at: number) => {
    const t = Math.min(to, Math.max(from, at));
    let x = (t - from) * unit;
    for (const f of folds) {
      if (t >= f.to) x += foldedWidth - (f.to - f.from) * unit;
      else if (t > f.from) x += (foldedWidth * (t - f.from)) / (f.to - f.from) - (t - f.from) * unit;
    }
    return Math.min(1, Math.max(0, x));
  };
  const time = (x: number) => {
    let low = from;
    let high = from + length;
    for (let i = 0; i < 50; i++) {
      const mid = (low + high) / 2;
      if (place(mid) < x) low = mid;
      else high = mid;
    }
    return high;
  };
  return { from, to: from + length, folds, place, time };
}

const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5, 864e5, 1728e5, 6048e5];

// ticks returns at most about n round times outside the folds, far enough from each other.
export function ticks(s: Scale, n: number): number[] {
  const shown = s.to - s.from - s.folds.reduce((sum, f) => sum + f.to - f.from, 0);
  const step = steps.find((x) => shown / x <= n) ?? steps.at(-1)!;
  const out: number[] = [];
  let last = -1;
  for (let t = Math.ceil(s.from / step) * step; t <= s.to && out.length < 2 * n; ) {
    const fold = s.folds.find((f) => t > f.from && t < f.to);
    if (fold) {
      t = Math.ceil(fold.to / step) * step;
      continue;
    }
    const x = s.place(t);
    if (x - last >= 0.6 / n) {
      out.push(t);
      last = x;
    }
    t += step;
  }
  return out;
}
