import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { stream } from "./api";

// useConnection returns how fresh the page is.
export function useConnection() {
  return useSyncExternalStore(stream.observe, stream.connection);
}

// useNow returns the time, as often as asked for.
export function useNow(everyMs = 1000): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

// useTitle names the page for the browser.
export function useTitle(title: string) {
  useEffect(() => {
    document.title = title ? `${title} · Perdure` : "Perdure";
  }, [title]);
}

// useFrame returns a function that runs fn before the next picture, once, however often it is called.
export function useFrame(fn: () => void): () => void {
  const pending = useRef(0);
  const latest = useRef(fn);
  useEffect(() => {
    latest.current = fn;
  });
  useEffect(() => () => cancelAnimationFrame(pending.current), []);
  return useCallback(() => {
    if (pending.current) return;
    pending.current = requestAnimationFrame(() => {
      pending.current = 0;
      latest.current();
    });
  }, []);
}
