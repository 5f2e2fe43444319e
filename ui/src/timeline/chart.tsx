import { Link } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useRef } from "react";
import { State } from "../app/icon";
import { duration, oneLine } from "../text/text";
import type { Bar, TurnMark } from "./fold";
import type { Row } from "./group";
import { ticks, type Scale } from "./scale";
import { barLook, nameOf, span, spansOf } from "./words";

const height = 30;
const percent = (x: number) => `${(100 * x).toFixed(3)}%`;

// Chart shows one row for each bar, of which only those in view are in the document.
export function Chart({ rows, turns, scale, onKey }: { rows: Row[]; turns: TurnMark[]; scale: Scale; onKey: (key: string) => boolean }) {
  const box = useRef<HTMLDivElement>(null);
  // eslint-disable-next-line react-hooks/incompatible-library
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: () => height, overscan: 10, getItemKey: (i) => rows[i]!.key });
  const ends = turns.filter((t) => t.to !== undefined && t.to >= scale.from && t.to <= scale.to);
  return (
    <div
      className="scroll chart"
      ref={box}
      tabIndex={0}
      role="region"
      aria-label="Chart of the work. Plus and minus zoom, left and right move, 0 shows all."
      data-testid="chart"
      onKeyDown={(e) => {
        if (!e.ctrlKey && !e.metaKey && !e.altKey && onKey(e.key)) e.preventDefault();
      }}
    >
      <Axis scale={scale} />
      <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
        <div className="marks" aria-hidden="true">
          {scale.folds.map((f) => (
            <span key={f.from} className="folded" style={{ left: percent(scale.place(f.from)), width: percent(scale.place(f.to) - scale.place(f.from)) }} />
          ))}
          {spread(ends, scale).map((t) => (
            <span key={t.seq + t.session} className="turn-end" style={{ left: percent(scale.place(t.to!)) }} />
          ))}
        </div>
        <ul aria-label="Bars" data-count={rows.filter((r) => r.bar).length}>
          {virtual.getVirtualItems().map((item) => {
            const row = rows[item.index]!;
            return (
              <li key={item.key} aria-setsize={rows.length} aria-posinset={item.index + 1} style={{ transform: `translateY(${item.start}px)` }}>
                {row.bar ? <BarRow bar={row.bar} scale={scale} /> : <h2 dir="auto">{row.title}</h2>}
              </li>
            );
          })}
        </ul>
      </div>
    </div>
  );
}

// spread leaves out marks that stand on the same pixel, so that a long range stays quick.
function spread(turns: TurnMark[], scale: Scale): TurnMark[] {
  let last = -1;
  return turns
    .toSorted((a, b) => a.to! - b.to!)
    .filter((t) => {
      const x = scale.place(t.to!);
      if (x - last < 0.01) return false;
      last = x;
      return true;
    });
}

function Axis({ scale }: { scale: Scale }) {
  const days = new Date(scale.from).toDateString() !== new Date(scale.to).toDateString();
  return (
    <div className="axis" aria-hidden="true">
      <div className="track">
        {ticks(scale, 6).map((t) => (
          <span key={t} className="tick" style={{ left: percent(scale.place(t)) }}>
            {new Date(t).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", ...(scale.to - scale.from < 3.6e6 * 3 ? { second: "2-digit" } : {}), hour12: false })}
            {days && <small> {new Date(t).toLocaleDateString([], { month: "short", day: "numeric" })}</small>}
          </span>
        ))}
        {scale.folds.map((f) => (
          <span key={f.from} className="idle" style={{ left: percent((scale.place(f.from) + scale.place(f.to)) / 2) }}>
            ≀ {duration(f.to - f.from)} ≀
          </span>
        ))}
      </div>
    </div>
  );
}

function BarRow({ bar, scale }: { bar: Bar; scale: Scale }) {
  const look = barLook(bar);
  return (
    <Link to="/sessions/$id/events" params={{ id: bar.session }} search={{ seq: bar.seq }} preload={false} className="bar-row" title={nameOf(bar)} data-bar={bar.id}>
      <span className="label" dir="auto">
        <State look={{ ...look, word: "" }} />
        <span className="name">
          {oneLine(bar.name, 120)}
          <span className="visually-hidden"> {spansOf(bar)}</span>
        </span>
        <small className="soft" aria-hidden="true">{span(bar)}</small>
      </span>
      <span className="track">
        {bar.parts.map((p, i) => {
          const left = scale.place(p.from);
          return p.to < scale.from || p.from > scale.to ? null : (
            <span key={i} className={`part ${p.kind} tone-${look.tone}`} style={{ left: percent(left), width: percent(scale.place(p.to) - left) }} />
          );
        })}
      </span>
    </Link>
  );
}
