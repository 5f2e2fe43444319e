import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { queries, stream } from "./api";
import { serverNow } from "./clock";

// useConnection returns how fresh the page is.
export function useConnection() {
  return useSyncExternalStore(stream.observe, stream.connection);
}

// usePaused returns whether the page keeps still. What reads by itself, without the stream, stops then.
export function usePaused(): boolean {
  return useConnection().state === "paused";
}

// useNow returns the time of the server, as often as asked for. In a paused page it stands still.
export function useNow(everyMs = 1000): number {
  const [now, setNow] = useState(serverNow);
  useEffect(() => {
    const timer = setInterval(() => stream.connection().state !== "paused" && setNow(serverNow()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

// useTitle names the page for the browser, and for the path at the top.
export function useTitle(title: string) {
  useEffect(() => {
    document.title = title ? `${title} · Perdure` : "Perdure";
    queries.setQueryData(["title"], title);
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

// useSettled returns a value once it has not changed for a while, as when somebody pauses typing.
export function useSettled<T>(value: T, pauseMs: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), pauseMs);
    return () => clearTimeout(timer);
  }, [value, pauseMs]);
  return settled;
}
