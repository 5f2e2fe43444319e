import { Link } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef } from "react";
import { State } from "../app/icon";
import { duration, oneLine } from "../text/text";
import { timeOf } from "../event/rows";
import { startOf, total, type Bar } from "./fold";
import type { Row } from "./group";
import { barLook, kindWords } from "./words";

const height = 32;
const columns = ["Work", "Kind", "State", "Start", "Queued", "Ran", "Waited for a person", "Before retries", "Tool", "Event"];

// Table has the same rows as the chart, as text.
export function Table({ rows }: { rows: Row[] }) {
  const box = useRef<HTMLDivElement>(null);
  const bars = useMemo(() => rows.flatMap((r) => (r.bar ? [r.bar] : [])), [rows]);
  // eslint-disable-next-line react-hooks/incompatible-library
  const virtual = useVirtualizer({ count: bars.length, getScrollElement: () => box.current, estimateSize: () => height, overscan: 8, getItemKey: (i) => bars[i]!.id });
  const items = virtual.getVirtualItems();
  const above = items[0]?.start ?? 0;
  const below = virtual.getTotalSize() - (items.at(-1)?.end ?? 0);
  return (
    <div className="scroll bars" ref={box} tabIndex={0} role="region" aria-label="The same work as a table">
      <table aria-rowcount={bars.length + 1} data-testid="bars-table">
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((c) => (
              <th key={c} scope="col">
                {c}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {above > 0 && <tr aria-hidden="true" style={{ height: above }} />}
          {items.map((item) => (
            <BarCells key={item.key} bar={bars[item.index]!} index={item.index + 2} />
          ))}
          {below > 0 && <tr aria-hidden="true" style={{ height: below }} />}
        </tbody>
      </table>
    </div>
  );
}

function BarCells({ bar, index }: { bar: Bar; index: number }) {
  const cell = (kind: "queue" | "run" | "human" | "gap") => {
    const ms = total(bar, kind);
    return <td className="number">{ms > 0 ? duration(ms) : ""}</td>;
  };
  return (
    <tr aria-rowindex={index} data-bar={bar.id}>
      <th scope="row" dir="auto">
        {oneLine(bar.name, 60)}
      </th>
      <td>
        {kindWords[bar.kind]}
        {bar.outlives && ", outlives its turn"}
      </td>
      <td>
        <State look={barLook(bar)} />
      </td>
      <td>{timeOf(new Date(startOf(bar)).toISOString())}</td>
      {cell("queue")}
      {cell("run")}
      {cell("human")}
      {cell("gap")}
      <td>
        {bar.taskId ? (
          <Link to="/tasks/$id" params={{ id: bar.taskId }}>
            {oneLine(bar.tool, 30)}
          </Link>
        ) : (
          oneLine(bar.tool, 30)
        )}
      </td>
      <td className="number">
        <Link to="/sessions/$id/events" params={{ id: bar.session }} search={{ seq: bar.seq }} preload={false}>
          #{bar.seq}
        </Link>
      </td>
    </tr>
  );
}
