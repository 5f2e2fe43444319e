import { useRouterState } from "@tanstack/react-router";
import { useEffect, useLayoutEffect, useRef, type RefObject } from "react";

// useKeepScroll keeps how far a box is scrolled, for each entry of the history: back, forward and a
// reload return there. Rows that are read page by page may come later, so it continues to scroll as they
// do, until the reader scrolls. name tells the boxes of different pages apart.
export function useKeepScroll(name: string, box: RefObject<HTMLElement | null>, rows: number) {
  const entry = useRouterState({ select: (s) => (s.resolvedLocation ?? s.location).state.__TSR_key ?? "" });
  const key = `scroll ${name} ${entry}`;
  const wanted = useRef<number>(undefined);
  useLayoutEffect(() => {
    wanted.current = Number(sessionStorage.getItem(key) ?? 0);
  }, [key]);
  useLayoutEffect(() => {
    const el = box.current;
    if (!el || wanted.current === undefined) return;
    el.scrollTop = wanted.current;
    if (Math.abs(el.scrollTop - wanted.current) < 2) wanted.current = undefined;
  }, [key, rows, box]);
  const shown = rows > 0;
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    const take = () => (wanted.current = undefined);
    const keep = () => wanted.current === undefined && sessionStorage.setItem(key, String(Math.round(el.scrollTop)));
    el.addEventListener("scroll", keep);
    const acts = ["wheel", "pointerdown", "keydown"] as const;
    acts.forEach((act) => el.addEventListener(act, take, { passive: true }));
    return () => {
      el.removeEventListener("scroll", keep);
      acts.forEach((act) => el.removeEventListener(act, take));
    };
  }, [key, shown, box]);
}
