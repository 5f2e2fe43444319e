// The turns of a transcript, as the minimap shows them.
import type { Entry } from "./transcript";

export type Tone = "soft" | "live" | "warn" | "bad" | "odd";

// Tick is a turn, or some turns beside each other in a long transcript. at and end are indexes of entries,
// end exclusive. tone is that of the turn that needs attention most.
export type Tick = { at: number; end: number; first: number; last: number; tone: Tone };

const words: Record<Tone, string> = { soft: "ended", live: "running", warn: "needs you", bad: "failed", odd: "outcome unknown" };
const order: Tone[] = ["soft", "live", "bad", "odd", "warn"];
const worse = (a: Tone, b: Tone) => (order.indexOf(a) > order.indexOf(b) ? a : b);

function toneOf(e: Entry): Tone {
  if (e.kind === "note") return e.turn !== undefined && e.tone === "bad" ? "bad" : "soft";
  if (e.kind !== "call") return "soft";
  return e.state === "asks" || e.state === "waits" ? "warn" : e.state === "unknown" ? "odd" : "soft";
}

// ticksOf returns at most some ticks for the turns of a transcript. runs says that a turn has not ended.
export function ticksOf(entries: readonly Entry[], runs: boolean, most: number): Tick[] {
  const turns: Tick[] = [];
  let at = 0;
  let tone: Tone = "soft";
  entries.forEach((e, i) => {
    tone = worse(tone, toneOf(e));
    if (e.kind !== "note" || e.turn === undefined) return;
    turns.push({ at, end: i + 1, first: turns.length + 1, last: turns.length + 1, tone });
    at = i + 1;
    tone = "soft";
  });
  if (runs && at < entries.length) turns.push({ at, end: entries.length, first: turns.length + 1, last: turns.length + 1, tone: worse("live", tone) });
  const size = Math.ceil(turns.length / most);
  if (size <= 1) return turns;
  const ticks: Tick[] = [];
  for (let i = 0; i < turns.length; i += size) {
    const some = turns.slice(i, i + size);
    ticks.push({ at: some[0]!.at, end: some.at(-1)!.end, first: i + 1, last: i + some.length, tone: some.reduce<Tone>((t, n) => worse(t, n.tone), "soft") });
  }
  return ticks;
}

// tickAt returns the index of the tick that an entry belongs to.
export function tickAt(ticks: readonly Tick[], entry: number): number {
  const found = ticks.findIndex((t) => entry < t.end);
  return found < 0 ? ticks.length - 1 : found;
}

export function tickWords(t: Tick): string {
  return `${t.first === t.last ? `Turn ${t.first}` : `Turns ${t.first} to ${t.last}`}, ${words[t.tone]}`;
}
