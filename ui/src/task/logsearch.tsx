import { useEffect, useRef, useState, type ReactNode } from "react";
import type { LogStore } from "./logstore";

const errorWords = /\b(error|failed|failure|fatal|panic|exception|traceback)\b/i;
const most = 10_000; // lines that a search lists
const step = 200_000; // lines of one look, between which the page stays responsive

// useLogSearch finds lines in what was read of a log. goTo shows a line.
export function useLogSearch(store: LogStore, version: number, goTo: (line: number) => void) {
  const [text, setText] = useState("");
  const [found, setFound] = useState<number[]>([]);
  const [at, setAt] = useState(-1);
  const [seen, setSeen] = useState(0); // lines that were searched
  const [note, setNote] = useState("");
  const [line, setLine] = useState(-1);
  const latest = useRef(goTo);
  useEffect(() => {
    latest.current = goTo;
  });
  const word = text.trim().length > 0 ? new RegExp(text.trim().replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i") : undefined;
  const source = word?.source;

  useEffect(() => {
    setFound([]);
    setSeen(0);
    setAt(-1);
    setLine(-1);
  }, [source, store]);

  useEffect(() => {
    if (!source) return;
    const timer = setTimeout(() => {
      const test = new RegExp(source, "i");
      const to = Math.min(store.count, seen + step);
      if (to <= seen || found.length >= most) return;
      const more: number[] = [];
      for (let i = store.find(seen, test, to); i >= 0 && found.length + more.length < most; i = store.find(i + 1, test, to)) more.push(i);
      setSeen(to);
      if (more.length === 0) return;
      setFound([...found, ...more]);
      if (at < 0) {
        setAt(0);
        setLine(more[0]!);
        latest.current(more[0]!);
      }
    }, 60);
    return () => clearTimeout(timer);
  }, [source, store, version, seen, found, at]);

  const go = (to: number) => {
    if (found.length === 0) return;
    const n = (to + found.length) % found.length;
    setAt(n);
    setLine(found[n]!);
    latest.current(found[n]!);
  };

  const firstError = () => {
    const i = store.find(0, errorWords);
    if (i >= 0) {
      setLine(i);
      setNote("");
      latest.current(i);
    } else {
      setNote(store.first > 0 ? "No line that was read names an error. Earlier lines were not read yet." : "No line names an error.");
    }
  };

  const marked = (shown: string): ReactNode => {
    if (!word) return shown;
    const parts: ReactNode[] = [];
    const all = new RegExp(word.source, "gi");
    let last = 0;
    for (const m of shown.matchAll(all)) {
      parts.push(shown.slice(last, m.index), <mark key={m.index}>{m[0]}</mark>);
      last = m.index + m[0].length;
    }
    return parts.length > 0 ? [...parts, shown.slice(last)] : shown;
  };

  const words = found.length === 0 ? (seen < store.count ? "searching" : "not found") : `${at + 1} of ${found.length >= most ? `${most}+` : found.length} lines`;
  return { text, setText, total: found.length, words, line, note, forth: () => go(at + 1), back: () => go(at - 1), firstError, marked };
}
