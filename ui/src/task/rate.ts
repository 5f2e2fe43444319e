import type { Progress } from "../event/types";
import { duration } from "../text/text";

type Sample = { at: number; current: number };

const windowMs = 60_000; // over which a rate is measured
const least = 2_000; // of a measurement

// Rates measures how fast tasks progress, from what the page saw of them.
export class Rates {
  private samples = new Map<string, Sample[]>();

  // see records the progress of a task. Progress that goes backwards begins anew.
  see(id: string, current: number | undefined, at: number) {
    if (current === undefined) return;
    let all = this.samples.get(id) ?? [];
    const last = all.at(-1);
    if (last && current < last.current) all = [];
    if (last && current === last.current && all.length > 0) return;
    all.push({ at, current });
    while (all.length > 2 && at - all[0]!.at > windowMs) all.shift();
    this.samples.set(id, all);
  }

  // forget drops the tasks that are not in a list.
  forget(keep: (id: string) => boolean) {
    for (const id of this.samples.keys()) if (!keep(id)) this.samples.delete(id);
  }

  // perSecond returns the rate, or undefined where it is not known. Time without progress counts.
  perSecond(id: string, now: number): number | undefined {
    const all = this.samples.get(id);
    if (!all || all.length < 2) return undefined;
    const first = all[0]!;
    const span = Math.max(all.at(-1)!.at, now) - first.at;
    if (span < least) return undefined;
    return ((all.at(-1)!.current - first.current) * 1000) / span;
  }
}

// fraction returns how far progress is, from 0 to 1, or undefined.
export function fraction(p: Progress | undefined): number | undefined {
  if (p?.current === undefined || !p.total || p.total <= 0) return undefined;
  return Math.min(1, Math.max(0, p.current / p.total));
}

const short = (n: number) => (n >= 100 || Number.isInteger(n) ? Math.round(n).toLocaleString() : n >= 10 ? n.toFixed(1) : n.toFixed(2));

// progressWords says progress, rate and the time left: "42 of 100 files · 1.4/s · 41 s left".
export function progressWords(p: Progress | undefined, perSecond: number | undefined): string {
  if (p?.current === undefined) return "";
  const words = [`${short(p.current)}${p.total ? ` of ${short(p.total)}` : ""}${p.unit ? ` ${p.unit}` : ""}`];
  if (perSecond !== undefined && perSecond > 0) {
    words.push(perSecond >= 0.1 ? `${short(perSecond)}/s` : `${short(perSecond * 60)}/min`);
    if (p.total && p.current < p.total) words.push(`${duration(((p.total - p.current) / perSecond) * 1000)} left`);
  }
  return words.join(" · ");
}
