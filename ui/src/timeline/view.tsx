import { serverNow } from "../app/clock";
import { useNavigate, type NavigateOptions } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { Button } from "../app/pieces";
import { moment } from "../event/filter";
import { oneLine, plural } from "../text/text";
import { Chart } from "./chart";
import { endOf, startOf } from "./fold";
import { rowsOf } from "./group";
import { Minimap } from "./minimap";
import type { Drawn } from "./read";
import { newScale } from "./scale";
import { groups, type Group, type TimelineSearch } from "./search";
import { Table } from "./table";
import "./timeline.css";

const groupWords: Record<Group, string> = { none: "nothing", turn: "Turn", tool: "Tool", agent: "Agent", session: "Session" };

// View shows bars as a chart and as a table. Range and group are in the address.
export function View({ drawn, search, titles }: { drawn: Drawn; search: TimelineSearch; titles: Map<string, string> }) {
  const navigate = useNavigate();
  const { bars, turns } = drawn;
  const first = useMemo(() => bars.reduce((t, b) => Math.min(t, startOf(b)), Infinity), [bars]);
  const last = useMemo(() => bars.reduce((t, b) => Math.max(t, endOf(b)), -Infinity), [bars]);
  const from = search.from ?? first;
  const to = search.to ?? Math.max(first + 1, last);
  const whole = useMemo(() => newScale(bars, first, Math.max(first + 1, last)), [bars, first, last]);
  const part = search.from !== undefined || search.to !== undefined;
  const scale = useMemo(() => (part ? newScale(bars, from, to) : whole), [part, bars, from, to, whole]);
  const rows = useMemo(() => rowsOf(bars, from, to, search.group, titles), [bars, from, to, search.group, titles]);
  const count = rows.reduce((n, r) => n + (r.bar ? 1 : 0), 0);
  const go = (change: TimelineSearch) => void navigate({ to: ".", search: clean({ ...search, ...change }), replace: true } as NavigateOptions);
  const setRange = (a: number, b: number) => go({ from: Math.round(a), to: Math.round(Math.max(b, a + 1)) });
  // zoom and move work on the width that is seen, so that a folded span is passed in one step
  const zoom = (by: number) => {
    const half = 0.5 * by;
    if (by > 1) return setRange(from - ((to - from) * (by - 1)) / 2, to + ((to - from) * (by - 1)) / 2);
    setRange(scale.time(0.5 - half), scale.time(0.5 + half));
  };
  const move = (by: number) => setRange(from + (to - from) * by, to + (to - from) * by);
  const onKey = (key: string): boolean => {
    switch (key) {
      case "+":
      case "=":
        return (zoom(0.5), true);
      case "-":
        return (zoom(2), true);
      case "ArrowLeft":
        return (move(-0.25), true);
      case "ArrowRight":
        return (move(0.25), true);
      case "0":
        return (go({ from: undefined, to: undefined }), true);
    }
    return false;
  };
  if (bars.length === 0) return <p className="center soft">There is no work to show yet.</p>;
  return (
    <>
      <div className="filters timeline-bar">
        <label className="small row-of">
          Group by
          <select className="field" value={search.group ?? "none"} onChange={(e) => go({ group: e.target.value as Group })}>
            {groups.map((g) => (
              <option key={g} value={g}>
                {groupWords[g]}
              </option>
            ))}
          </select>
        </label>
        <Range key={`${from} ${to}`} from={from} to={to} onRange={setRange} />
        <span className="row-of">
          <Button onPress={() => zoom(0.5)}>Zoom in</Button>
          <Button onPress={() => zoom(2)}>Zoom out</Button>
          <Button onPress={() => go({ from: undefined, to: undefined })} isDisabled={search.from === undefined}>
            All
          </Button>
        </span>
        <span className="soft small" role="status" data-testid="bar-count">
          {plural(count, "bar")}
          {count < bars.length && ` of ${bars.length.toLocaleString()}`}
        </span>
      </div>
      <Minimap bars={bars} scale={whole} range={[from, to]} onRange={setRange} />
      <Legend />
      <div className="twins">
        <Chart rows={rows} turns={turns} scale={scale} onKey={onKey} />
        <Table rows={rows} />
      </div>
    </>
  );
}

function clean(s: TimelineSearch): TimelineSearch {
  return Object.fromEntries(Object.entries(s).filter(([, v]) => v !== undefined)) as TimelineSearch;
}

const typed = (at: number) => {
  const d = new Date(at - new Date(at).getTimezoneOffset() * 60_000);
  return Number.isFinite(at) ? d.toISOString().slice(0, 19).replace("T", " ") : "";
};

// Range is the range as text.
function Range({ from, to, onRange }: { from: number; to: number; onRange: (from: number, to: number) => void }) {
  const [a, setA] = useState(typed(from));
  const [b, setB] = useState(typed(to));
  const [wrong, setWrong] = useState("");
  return (
    <form
      className="range row-of"
      onSubmit={(e) => {
        e.preventDefault();
        const [start, end] = [a === typed(from) ? from : Date.parse(moment(a, serverNow()) ?? ""), b === typed(to) ? to : Date.parse(moment(b, serverNow()) ?? "")];
        if (Number.isNaN(start)) return setWrong(`“${oneLine(a, 30)}” is no time. Write 14:02, 2026-03-01 14:02, or an age such as 2h.`);
        if (Number.isNaN(end)) return setWrong(`“${oneLine(b, 30)}” is no time. Write 14:02, 2026-03-01 14:02, or an age such as 2h.`);
        if (start >= end) return setWrong("The range ends before it starts.");
        onRange(start, end);
      }}
    >
      <input className="field" aria-label="From" value={a} onChange={(e) => setA(e.target.value)} />
      <span aria-hidden="true">–</span>
      <input className="field" aria-label="To" value={b} onChange={(e) => setB(e.target.value)} />
      <Button type="submit">Show</Button>
      {wrong && (
        <span className="small tone-bad" role="alert">
          {wrong}
        </span>
      )}
    </form>
  );
}

function Legend() {
  return (
    <p className="legend small soft">
      <span>
        <i className="part queue tone-live" /> queued
      </span>
      <span>
        <i className="part run tone-live" /> runs
      </span>
      <span>
        <i className="part human tone-warn" /> waits for a person
      </span>
      <span>
        <i className="part gap tone-live" /> before a retry
      </span>
      <span>
        <i className="turn-end" /> turn ended
      </span>
      <span>≀ 2 h ≀ nothing ran</span>
    </p>
  );
}
