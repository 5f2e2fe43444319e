import { useNavigate, Link } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { Icon } from "../app/icon";
import { Button, Failure } from "../app/pieces";
import { staying, useKeepScroll } from "../app/scroll";
import { safe } from "../text/text";
import { isFiltered, filterOf, type EventSearch } from "./filter";
import { useRows, type useLastSeq } from "./journal";
import { sentence } from "./sentence";
import { toneOf } from "./tone";
import type { Event } from "./types";

const height = 30;

// EventRows lists events, newest first. It follows the journal while the reader is at the top, and
// never moves otherwise.
export function EventRows({ id, search, journal }: { id: string; search: EventSearch; journal: ReturnType<typeof useLastSeq> }) {
  const box = useRef<HTMLDivElement>(null);
  const [atTop, setAtTop] = useState(!search.seq);
  const [pinned, setPinned] = useState<number>();
  const top = atTop ? journal.top : (pinned ?? journal.top);
  const [view, setView] = useState<[number, number]>([0, 40]);
  const rows = useRows(id, search, journal, top, view);
  const navigate = useNavigate();
  const { renew } = journal;
  useEffect(() => renew(), [renew]); // a new filter searches what arrived since the page began
  // eslint-disable-next-line react-hooks/incompatible-library
  const virtual = useVirtualizer({ count: rows.count, getScrollElement: () => box.current, estimateSize: () => height, overscan: 12, getItemKey: (i) => rows.seqOf(i) ?? i });
  const items = virtual.getVirtualItems();
  const [first, last] = [items[0]?.index ?? 0, items.at(-1)?.index ?? 40];
  useEffect(() => setView((v) => (v[0] === first && v[1] === last ? v : [first, last])), [first, last]);

  const filtered = isFiltered(filterOf(search));
  const open = search.seq ? rows.indexOf(search.seq) : -1;
  const placed = useRef(0);
  useLayoutEffect(() => {
    if (open < 0 || placed.current === search.seq) return;
    virtual.scrollToIndex(open, { align: placed.current ? "auto" : "center" });
    placed.current = search.seq!;
  }, [open, search.seq, virtual]);

  useKeepScroll(`events ${id}`, box, rows.count, staying);

  const onScroll = () => {
    const up = box.current!.scrollTop < height;
    if (up === atTop) return;
    if (!up) setPinned(journal.top);
    setAtTop(up);
  };
  const step = (by: number) => {
    const next = rows.seqOf(Math.min(rows.count - 1, Math.max(0, open < 0 ? first : open + by)));
    if (next) void navigate({ to: "/sessions/$id/events", params: { id }, search: { ...search, seq: next }, replace: true });
  };
  const behind = filtered ? journal.top - (journal.base ?? journal.top) : journal.top - top;
  return (
    <div className="list">
      {behind > 0 && (
        <p className="newer-events">
          <Button look="bare" onPress={() => (journal.renew(), setAtTop(true), box.current?.scrollTo({ top: 0 }))}>
            {behind.toLocaleString()} newer <Icon name="up" />
          </Button>
        </p>
      )}
      {rows.error ? <Failure error={rows.error} onRetry={rows.retry} /> : null}
      <div
        className="scroll events"
        ref={box}
        onScroll={onScroll}
        tabIndex={0}
        role="region"
        aria-label="Events, newest first"
        data-testid="events"
        onKeyDown={(e) => {
          const by = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[e.key];
          if (!by || e.ctrlKey || e.metaKey || e.altKey) return;
          e.preventDefault();
          step(by);
        }}
      >
        <ol style={{ height: virtual.getTotalSize(), position: "relative" }}>
          {items.map((item) => (
            <li key={item.key} aria-setsize={rows.count} aria-posinset={item.index + 1} style={{ transform: `translateY(${item.start}px)` }}>
              <Row id={id} seq={rows.seqOf(item.index)!} event={rows.at(item.index)} search={search} />
            </li>
          ))}
        </ol>
        {rows.count === 0 && <p className="center soft">{rows.loading ? "Reading…" : filtered ? "No event matches the filter." : "There are no events."}</p>}
        {filtered && rows.readTo > 1 && (
          <p className="center small soft" role="status">
            {rows.more ? (
              <Button onPress={rows.more}>Search before event {rows.readTo.toLocaleString()}</Button>
            ) : (
              rows.loading && `Searching before event ${rows.readTo.toLocaleString()}…`
            )}
          </p>
        )}
      </div>
    </div>
  );
}

function Row({ id, seq, event, search }: { id: string; seq: number; event: Event | undefined; search: EventSearch }) {
  return (
    <Link
      to="/sessions/$id/events"
      params={{ id }}
      search={{ ...search, seq }}
      replace={search.seq !== undefined}
      preload={false}
      className="event"
      aria-current={search.seq === seq ? "true" : undefined}
      data-seq={seq}
    >
      <span className="seq">{seq}</span>
      <span className="time">{event ? timeOf(event.at) : ""}</span>
      <span className={`type tone-${event ? toneOf(event) : "soft"}`}>{event ? safe(event.type) : "…"}</span>
      <span className="what" dir="auto">
        {event ? sentence(event) : ""}
      </span>
    </Link>
  );
}

// timeOf returns the time of day with milliseconds, and the date unless it is today.
export function timeOf(at: string): string {
  const day = new Date(at);
  const time = day.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hour12: false });
  return day.toDateString() === new Date().toDateString() ? time : `${day.toLocaleDateString([], { month: "short", day: "numeric" })} ${time}`;
}
