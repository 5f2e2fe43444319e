import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState, type Dispatch, type SetStateAction } from "react";
import { useNow } from "../app/hooks";
import { Button } from "../app/pieces";
import { useKeepScroll } from "../app/scroll";
import { useLiveList } from "../event/list";
import type { Session, Task } from "../event/types";
import { useView } from "../list/paged";
import type { Row as RowOf } from "../list/pages";
import { oneLine, plural } from "../text/text";
import { Rates } from "./rate";
import { TaskRow } from "./row";
import { steady } from "./steady";

type Row = RowOf<Task>;

type Props = {
  name: string; // of the list, with its filter
  rows: Row[];
  onView: (ids: readonly string[]) => void; // the first and the last row in view, once they have settled
  beatMs: number;
  picked: ReadonlySet<string>;
  onPick: Dispatch<SetStateAction<ReadonlySet<string>>>;
  more: boolean;
  onEnd: () => void;
};

// TaskRows shows rows of one height, of which only those in view are in the document. While the pointer
// or the focus is among them, or some are selected, none changes its place.
export function TaskRows({ name, rows, onView, beatMs, picked, onPick, more, onEnd }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [over, setOver] = useState(false);
  const [inside, setInside] = useState(false);
  const [fresh, setFresh] = useState(0); // rises when a person asks for the waiting rows
  const kept = useRef<Row[]>([]);
  const taken = useRef(fresh);
  const held = (over || inside || picked.size > 0) && taken.current === fresh;
  const now = useNow();
  const sessions = useLiveList<Session>("sessions");
  const titleOf = (t: Task) => oneLine(sessions.get(t.session_id)?.title || t.session_id.slice(0, 16), 60);
  const rates = useRef(new Rates());
  const view = useMemo(() => steady(kept.current, rows, held), [rows, held]);
  useEffect(() => {
    kept.current = view.rows;
    taken.current = fresh;
    const ids = new Set(view.rows.map((t) => t.id));
    view.rows.forEach((t) => rates.current.see(t.id, t.progress?.current, Date.now()));
    rates.current.forget((id) => ids.has(id));
  }, [view, fresh]);

  // eslint-disable-next-line react-hooks/incompatible-library
  const virtual = useVirtualizer({ count: view.rows.length, getScrollElement: () => box.current, estimateSize: () => 56, overscan: 10, getItemKey: (i) => view.rows[i]!.id });
  useKeepScroll(`tasks ${name}`, box, view.rows.length);
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && last >= view.rows.length - 10) onEnd();
  }, [more, last, view.rows.length, onEnd]);

  useView(view.rows, items, onView);

  const all = view.rows.length > 0 && view.rows.every((t) => picked.has(t.id));
  return (
    <div className="tasklist">
      <div className="listhead small soft">
        <label className="pick">
          <input type="checkbox" aria-label="Select all rows" checked={all} onChange={() => onPick(all ? new Set() : new Set(view.rows.map((t) => t.id)))} />
        </label>
        <span role="status">
          {picked.size > 0 ? `${picked.size} selected of ${plural(view.rows.length, "row")}` : plural(view.rows.length, "row")}
          {more ? ", more below" : ""}
        </span>
        {view.waiting > 0 && (
          <Button look="bare" onPress={() => setFresh((n) => n + 1)}>
            Show {view.waiting} new
          </Button>
        )}
      </div>
      <div
        className="scroll sessions"
        ref={box}
        tabIndex={0}
        role="region"
        aria-label="List of tasks"
        onPointerEnter={(e) => e.pointerType === "mouse" && setOver(true)}
        onPointerLeave={() => setOver(false)}
        onFocus={() => setInside(true)}
        onBlur={(e) => !e.currentTarget.contains(e.relatedTarget) && setInside(false)}
      >
        <ul style={{ height: virtual.getTotalSize(), position: "relative" }}>
          {items.map((item) => {
            const t = view.rows[item.index]!;
            return (
              <li key={item.key} className="taskrow" data-left={view.left.has(t.id) || undefined} aria-setsize={more ? -1 : view.rows.length} aria-posinset={item.index + 1} style={{ transform: `translateY(${item.start}px)` }}>
                <TaskRow
                  session={titleOf(t)}
                  task={t}
                  now={now}
                  readAt={t.readAt}
                  beatMs={beatMs}
                  left={view.left.has(t.id)}
                  perSecond={rates.current.perSecond(t.id, Date.now())}
                  picked={picked.has(t.id)}
                  onPick={(on) =>
                    onPick((before) => {
                      const next = new Set(before);
                      if (on) next.add(t.id);
                      else next.delete(t.id);
                      return next;
                    })
                  }
                />
              </li>
            );
          })}
        </ul>
      </div>
    </div>
  );
}
