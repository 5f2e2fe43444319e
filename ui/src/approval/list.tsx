import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, type ReactNode } from "react";
import { staying, useKeepScroll } from "../app/scroll";
import type { Approval } from "../event/types";
import { useView } from "../list/paged";
import "../session/list.css";
import "./approval.css";

type Props = {
  name: string; // for people
  rows: readonly Approval[];
  chosen: string | undefined;
  more: boolean;
  onEnd: () => void; // reads on
  onView?: (ids: readonly string[]) => void; // the first and the last row in view, once they have settled
  row: (a: Approval) => ReactNode;
};

const height = 77; // of a row, which approval.css sets
const nothing = () => {};

// ApprovalRows shows rows of one height, of which only those in view are in the document. The chosen one
// is scrolled into view.
export function ApprovalRows({ name, rows, chosen, more, onEnd, onView = nothing, row }: Props) {
  const box = useRef<HTMLDivElement>(null);
  // eslint-disable-next-line react-hooks/incompatible-library
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: () => height, overscan: 10, getItemKey: (i) => rows[i]!.id });
  useKeepScroll(name, box, rows.length, { ...staying, onShort: () => more && onEnd() });
  const shown = virtual.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && last >= rows.length - 20) onEnd();
  }, [more, last, rows.length, onEnd]);
  useView(rows, shown, onView);
  const at = rows.findIndex((a) => a.id === chosen);
  const place = useRef(at);
  place.current = at;
  const known = at >= 0;
  useEffect(() => {
    if (known) virtual.scrollToIndex(place.current, { align: "auto" });
  }, [chosen, known, virtual]);
  return (
    <div className="scroll list" ref={box} tabIndex={0} role="region" aria-label={`List of ${name.toLowerCase()}`}>
      <ul aria-label={name} style={{ height: virtual.getTotalSize(), position: "relative" }}>
        {shown.map((item) => (
          <li key={item.key} aria-setsize={more ? -1 : rows.length} aria-posinset={item.index + 1} style={{ transform: `translateY(${item.start}px)` }}>
            {row(rows[item.index]!)}
          </li>
        ))}
      </ul>
    </div>
  );
}
