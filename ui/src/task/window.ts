import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";

export const rowPx = 18;
const maxPx = 12_000_000; // of an element, which all browsers can lay out
const near = 2; // rows from the end that count as the end
const over = 6; // rows above and below the ones in view

// useWindow returns which rows of one height are in view, for any number of rows. Beyond the height that
// a browser can lay out, the scroll bar is a proportion, and wheel and keys move by rows.
export function useWindow(count: number) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0); // first row in view, with fractions
  const [height, setHeight] = useState(400);
  const [stick, setStick] = useState(true);
  const own = useRef(-1); // scrollTop that this code has set
  const fits = Math.max(1, Math.floor(height / rowPx));
  const lastTop = Math.max(0, count - fits);
  const scaled = count * rowPx > maxPx;
  const total = Math.min(count * rowPx, maxPx);

  const toScroll = useCallback((row: number) => (scaled ? (lastTop > 0 ? (row / lastTop) * (total - height) : 0) : row * rowPx), [scaled, lastTop, total, height]);
  const moveTo = useCallback(
    (row: number) => {
      const to = Math.min(Math.max(0, row), lastTop);
      setTop(to);
      setStick(to >= lastTop - near);
      const el = box.current;
      if (!el) return;
      el.scrollTop = to >= lastTop ? el.scrollHeight : toScroll(to);
      own.current = el.scrollTop;
    },
    [lastTop, toScroll],
  );

  useLayoutEffect(() => {
    if (stick) moveTo(lastTop);
  }, [stick, lastTop, moveTo]);

  useEffect(() => {
    const el = box.current;
    if (!el) return;
    const sized = new ResizeObserver(() => setHeight(el.clientHeight));
    sized.observe(el);
    return () => sized.disconnect();
  }, []);

  const onScroll = () => {
    const el = box.current!;
    if (Math.abs(el.scrollTop - own.current) < 1) return;
    own.current = -1;
    const share = el.scrollTop / Math.max(1, el.scrollHeight - el.clientHeight);
    const row = scaled ? share * lastTop : el.scrollTop / rowPx;
    setTop(row);
    setStick(el.scrollHeight - el.scrollTop - el.clientHeight < near * rowPx);
  };

  useEffect(() => {
    const el = box.current;
    if (!el || !scaled) return;
    const wheel = (e: WheelEvent) => {
      if (e.ctrlKey || e.deltaY === 0) return;
      e.preventDefault();
      moveTo(top + (e.deltaMode === 1 ? e.deltaY : e.deltaY / rowPx));
    };
    const key = (e: KeyboardEvent) => {
      const by: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: fits - 1, PageUp: 1 - fits, Home: -count, End: count };
      const step = by[e.key];
      if (step === undefined || e.target !== el) return;
      e.preventDefault();
      moveTo(top + step);
    };
    el.addEventListener("wheel", wheel, { passive: false });
    el.addEventListener("keydown", key);
    return () => {
      el.removeEventListener("wheel", wheel);
      el.removeEventListener("keydown", key);
    };
  }, [scaled, top, fits, count, moveTo]);

  const from = Math.max(0, Math.min(Math.floor(top), lastTop) - over);
  const to = Math.min(count, Math.floor(top) + fits + 1 + over);
  return { box, onScroll, total, from, to, offset: toScroll(Math.min(top, lastTop)) - (Math.min(top, lastTop) - from) * rowPx, stick, setStick, moveTo, fits };
}
