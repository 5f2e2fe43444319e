import { useMemo, useState, type KeyboardEvent, type PointerEvent } from "react";
import { tickAt, ticksOf, tickWords } from "./ticks";
import type { Entry } from "./transcript";
import "./minimap.css";

const most = 150; // ticks
const page = 10; // turns of one PageUp or PageDown

type Props = { entries: readonly Entry[]; runs: boolean; first: number; last: number; onGo: (entry: number) => void };

// Minimap shows the turns that were read, each as a tick in the colour of its state, and which part is in
// view: the entries from first to last. It is a slider over the turns.
export function Minimap({ entries, runs, first, last, onGo }: Props) {
  const ticks = useMemo(() => ticksOf(entries, runs, most), [entries, runs]);
  const [chosen, setChosen] = useState<number>(); // by keys or a click: the last turns cannot be first in view
  if (ticks.length < 2) return null;
  const current = Math.min(chosen ?? tickAt(ticks, first), ticks.length - 1);
  const go = (to: number) => {
    const tick = Math.max(0, Math.min(ticks.length - 1, to));
    setChosen(tick);
    onGo(ticks[tick]!.at);
  };
  const part = (n: number) => `${(100 * n) / entries.length}%`;
  const onKeyDown = (e: KeyboardEvent) => {
    const to = { ArrowUp: current - 1, ArrowLeft: current - 1, ArrowDown: current + 1, ArrowRight: current + 1, PageUp: current - page, PageDown: current + page, Home: 0, End: ticks.length - 1 }[e.key];
    if (to === undefined || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    go(to);
  };
  const onPointerDown = (e: PointerEvent<HTMLDivElement>) => {
    const { top, height } = e.currentTarget.getBoundingClientRect();
    go(tickAt(ticks, Math.floor(((e.clientY - top) / height) * entries.length)));
  };
  return (
    <div
      className="minimap"
      role="slider"
      tabIndex={0}
      aria-label="Turns of the transcript"
      aria-orientation="vertical"
      aria-valuemin={1}
      aria-valuemax={ticks.at(-1)!.last}
      aria-valuenow={ticks[current]!.first}
      aria-valuetext={tickWords(ticks[current]!)}
      onKeyDown={onKeyDown}
      onBlur={() => setChosen(undefined)}
      onPointerDown={onPointerDown}
    >
      <i className="seen" style={{ top: part(first), height: part(Math.max(1, last - first + 1)) }} />
      {ticks.map((t) => (
        <i key={t.first} className={`tick tone-${t.tone}`} style={{ top: part(t.at), height: part(t.end - t.at) }} title={tickWords(t)} />
      ))}
    </div>
  );
}
