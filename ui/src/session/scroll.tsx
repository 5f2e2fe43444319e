import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import { Icon } from "../app/icon";
import { Button } from "../app/pieces";
import { useKeepScroll } from "../app/scroll";
import { plural } from "../text/text";
import type { CostLine } from "../cost/money";
import { EntryView } from "./entry";
import { Minimap } from "./minimap";
import type { Reading } from "./reader";
import type { Entry } from "./transcript";

const near = 60; // pixels from the end that count as the end

// Scroll shows the entries, of which only those in view are in the document. It stays at the end while
// the reader is there, and never moves otherwise.
export function Scroll({ reading, costs }: { reading: Reading; costs: ReadonlyMap<string, CostLine> | undefined }) {
  const { entries, earlier, readEarlier } = reading;
  const box = useRef<HTMLDivElement>(null);
  const stick = useRef(true);
  const [seen, setSeen] = useState(0); // number of entries when the reader left the end; 0: at the end
  const [busy, setBusy] = useState(false);
  // eslint-disable-next-line react-hooks/incompatible-library
  const virtual = useVirtualizer({
    count: entries.length,
    getScrollElement: () => box.current,
    estimateSize: () => 64,
    overscan: 8,
    getItemKey: (i) => entries[i]!.id,
  });
  const total = virtual.getTotalSize();

  const toEnd = useCallback(() => {
    const el = box.current;
    if (el) el.scrollTop = el.scrollHeight;
  }, []);

  useLayoutEffect(() => {
    if (stick.current) toEnd();
  }, [total, entries, toEnd]);

  useEffect(() => {
    const el = box.current;
    if (!el) return;
    const sized = new ResizeObserver(() => stick.current && toEnd());
    sized.observe(el);
    return () => sized.disconnect();
  }, [toEnd]);

  useKeepScroll(`transcript ${reading.id}`, box, total, {
    fresh: "stay",
    save: (el) => {
      if (stick.current) return "end";
      const first = virtual.getVirtualItems().find((i) => i.end > el.scrollTop);
      return first ? `${Math.round(el.scrollTop - first.start)} ${String(first.key)}` : "end";
    },
    // The heights of entries are known once they were shown, so the place is set again as they come.
    restore: (el, saved) => {
      const [offset, ...id] = saved.split(" ");
      const at = virtual.measurementsCache.find((m) => m.key === id.join(" "));
      if (saved === "end" || !at) return true;
      if (stick.current) setSeen(entries.length);
      stick.current = false;
      el.scrollTop = at.start + Number(offset);
      return false;
    },
  });

  const top = useRef(0);
  const onScroll = () => {
    const el = box.current!;
    const atEnd = el.scrollHeight - el.scrollTop - el.clientHeight < near;
    const up = el.scrollTop < top.current;
    top.current = el.scrollTop;
    if (atEnd === stick.current) return;
    if (!atEnd && !up) return toEnd(); // the text grew, or the box shrank: the reader has not moved
    stick.current = atEnd;
    setSeen(atEnd ? 0 : entries.length);
  };

  const more = async () => {
    setBusy(true);
    const el = box.current!;
    const fromEnd = el.scrollHeight - el.scrollTop;
    try {
      await readEarlier();
    } finally {
      setBusy(false);
      requestAnimationFrame(() => requestAnimationFrame(() => (el.scrollTop = el.scrollHeight - fromEnd)));
    }
  };

  const items = virtual.getVirtualItems();
  const offset = virtual.scrollOffset ?? 0;
  const inView = items.filter((i) => i.end > offset + 1 && i.start < offset + (virtual.scrollRect?.height ?? 0));
  const go = (entry: number) => {
    stick.current = false;
    setSeen(entries.length);
    virtual.scrollToIndex(entry, { align: "start" });
  };

  const newer = seen > 0 ? entries.length - seen : 0;
  return (
    <div className="reader">
      <div className="scroll transcript" ref={box} onScroll={onScroll} tabIndex={0} role="region" aria-label="Transcript" data-testid="transcript">
        {earlier && (
          <p className="rule">
            <Button look="bare" isDisabled={busy} onPress={() => void more()}>
              {busy ? "Reading…" : "Read what came before"}
            </Button>
          </p>
        )}
        <ol style={{ height: total, position: "relative" }}>
          {items.map((item) => (
            <li key={item.key} ref={virtual.measureElement} data-index={item.index} className="entry" style={{ transform: `translateY(${item.start}px)` }}>
              <EntryView entry={entries[item.index]!} session={reading.id} texts={reading.texts} cost={costOf(entries[item.index]!, costs)} />
            </li>
          ))}
        </ol>
      </div>
      <Minimap entries={entries} runs={!!reading.turn} first={inView[0]?.index ?? 0} last={inView.at(-1)?.index ?? 0} onGo={go} />
      {seen > 0 && (
        <div className="newer">
          <Button onPress={() => ((stick.current = true), setSeen(0), toEnd())}>
            {newer > 0 ? `${plural(newer, "new entry").replace("entrys", "entries")}` : "To the end"} <Icon name="down" />
          </Button>
        </div>
      )}
    </div>
  );
}

const costOf = (e: Entry, costs: ReadonlyMap<string, CostLine> | undefined) => (e.kind === "note" && e.turn ? costs?.get(e.turn) : undefined);
