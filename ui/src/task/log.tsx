import { useMutation } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { Button, Failure } from "../app/pieces";
import type { Task } from "../event/types";
import { bytes, safe } from "../text/text";
import { Layout, type Row } from "./loglayout";
import { useLogSearch } from "./logsearch";
import { download, useLog, type LogState } from "./logstream";
import { rowPx, useWindow } from "./window";
import "./log.css";

const stateWords: Record<LogState, string> = {
  reading: "reading",
  follows: "follows",
  ended: "complete",
  away: "the server is away; this continues when it is back",
  missing: "not there any more",
};

// TaskLog shows the log of a task, however long, and follows it while the task runs.
export function TaskLog({ task }: { task: Task }) {
  const [wrap, setWrap] = useState(true);
  const [times, setTimes] = useState(false);
  const [errors, setErrors] = useState(false);
  const [whole, setWhole] = useState(false);
  const [columns, setColumns] = useState(80);
  const log = useLog(task.id, { whole, stream: errors ? "err" : "all" });
  const { store, version, state } = log;
  const layout = useRef<Layout>(undefined);
  const made = useRef({ store, columns: -1, wrap });
  if (!layout.current || made.current.store !== store || made.current.columns !== columns || made.current.wrap !== wrap || !layout.current.valid) {
    layout.current = new Layout(store, wrap ? columns : 0);
    made.current = { store, columns, wrap };
  }
  const rows = layout.current;
  const count = rows.count;
  const view = useWindow(count);
  const goTo = (line: number) => {
    view.setStick(false);
    view.moveTo(rows.rowOfLine(line) - Math.floor(view.fits / 3));
  };
  const search = useLogSearch(store, version, goTo);
  const save = useMutation({ mutationFn: () => download(task.id, () => {}) });
  const probe = useRef<HTMLSpanElement>(null);
  const width = useWidth(view.box);
  useEffect(() => {
    const char = (probe.current?.getBoundingClientRect().width ?? 0) / 100;
    if (char > 0 && width > 0) setColumns(Math.max(20, Math.floor((width - 24 - (times ? 14 : 0) * char) / char)));
  }, [width, times]);

  const shown = useMemo(() => {
    const all: { n: number; row: Row }[] = [];
    for (let n = view.from; n < Math.min(view.to, count); n++) all.push({ n, row: rows.row(n) });
    return all;
    // version stands for what the store contains
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [view.from, view.to, rows, count, version]);
  const partial = !whole && store.first > 0;

  return (
    <section className="log" aria-label="Log">
      <div className="toolbar">
        <span className="small soft" data-testid="log-state">
          {count === 0 ? "" : `${store.count.toLocaleString()} lines, ${bytes(store.bytes)}${partial ? ` from the end of ${bytes(Math.max(task.log_bytes, store.next))}` : ""} · `}
          {stateWords[state]}
        </span>
        <input
          className="field search"
          type="search"
          aria-label="Search the log"
          placeholder="Search"
          value={search.text}
          onChange={(e) => search.setText(e.target.value)}
          onKeyDown={(e) => e.key === "Enter" && (e.preventDefault(), e.shiftKey ? search.back() : search.forth())}
          spellCheck={false}
        />
        {search.text && (
          <>
            <span className="small soft" role="status">
              {search.words}
            </span>
            <Button look="bare" onPress={search.back} isDisabled={search.total === 0}>
              Previous
            </Button>
            <Button look="bare" onPress={search.forth} isDisabled={search.total === 0}>
              Next
            </Button>
          </>
        )}
        <Button look="bare" onPress={search.firstError} isDisabled={count === 0}>
          First error
        </Button>
        <Toggle word="Wrap" on={wrap} set={setWrap} />
        <Toggle word="Times" on={times} set={setTimes} />
        <Toggle word="Errors only" on={errors} set={setErrors} />
        {partial && (
          <Button look="bare" onPress={() => setWhole(true)}>
            Read all
          </Button>
        )}
        <Button look="bare" onPress={() => save.mutate()} isDisabled={save.isPending || task.log_bytes === 0}>
          {save.isPending ? "Saving…" : "Download"}
        </Button>
      </div>
      {save.error && <Failure error={save.error} />}
      {search.note && (
        <p className="small soft" role="status">
          {search.note}
        </p>
      )}
      <span ref={probe} className="probe" aria-hidden="true">
        {"0".repeat(100)}
      </span>
      <div className="logbox" ref={view.box} onScroll={view.onScroll} tabIndex={0} role="region" aria-label="Output">
        <div style={{ height: Math.max(view.total, rowPx), position: "relative" }}>
          <div style={{ transform: `translateY(${Math.max(0, view.offset)}px)` }}>
            {shown.map(({ n, row }) => (
              <div key={n} className={`logrow ${row.stream === "stderr" ? "err" : row.stream === "stdout" ? "" : "sys"}`} data-found={row.line === search.line || undefined}>
                {times && <span className="at">{row.first && row.at ? row.at.slice(11, 23) : ""}</span>}
                {row.stream === "stderr" && row.first && <span className="visually-hidden">error output: </span>}
                {search.marked(safe(row.text))}
                {row.cut && <span className="soft"> … the line goes on; wrap it to read all</span>}
              </div>
            ))}
          </div>
          {count === 0 && <p className="soft">{state === "reading" ? "Loading…" : errors ? "(no error output)" : "(no output)"}</p>}
        </div>
      </div>
      {!view.stick && count > view.fits && (
        <div className="newer">
          <Button onPress={() => view.setStick(true)}>{state === "follows" ? "Follow the end" : "To the end"}</Button>
        </div>
      )}
    </section>
  );
}

function Toggle({ word, on, set }: { word: string; on: boolean; set: (on: boolean) => void }) {
  return (
    <label className="small toggle">
      <input type="checkbox" checked={on} onChange={(e) => set(e.target.checked)} /> {word}
    </label>
  );
}

function useWidth(box: React.RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    const sized = new ResizeObserver(() => setWidth(el.clientWidth));
    sized.observe(el);
    return () => sized.disconnect();
  }, [box]);
  return width;
}
