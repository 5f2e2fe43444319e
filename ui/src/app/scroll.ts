import { useRouterState } from "@tanstack/react-router";
import { useEffect, useLayoutEffect, useRef, type RefObject } from "react";

// Way says how a place in a box is written down, and how the box returns there. restore reports whether it
// has arrived; it is called again when the box grows. fresh says where a new entry of the history begins.
export type Way = { fresh: "top" | "stay"; save: (el: HTMLElement) => string; restore: (el: HTMLElement, saved: string) => boolean; onShort?: () => void };

const fromTop: Way = {
  fresh: "top",
  save: (el) => String(Math.round(el.scrollTop)),
  restore: (el, saved) => {
    el.scrollTop = Number(saved);
    return Math.abs(el.scrollTop - Number(saved)) < 2;
  },
};

// staying is for lists in which a selection is an entry of the history: it moves nothing.
export const staying: Way = { ...fromTop, fresh: "stay" };

// useKeepScroll keeps how far a box is scrolled, for each entry of the history: back, forward and a
// reload return there. Rows that are read page by page may come later, so it continues to scroll as they
// do, until the reader scrolls; onShort may read more of them. name tells the boxes of different pages
// apart; size changes when the box grows.
export function useKeepScroll(name: string, box: RefObject<HTMLElement | null>, size: number, way: Way = fromTop) {
  const entry = useRouterState({ select: (s) => (s.resolvedLocation ?? s.location).state.__TSR_key ?? "" });
  const key = `scroll ${name} ${entry}`;
  const wanted = useRef<string>(undefined);
  const how = useRef(way);
  how.current = way;
  useLayoutEffect(() => {
    const el = box.current;
    const saved = sessionStorage.getItem(key) ?? undefined;
    const stays = how.current.fresh === "stay";
    wanted.current = saved ?? (stays ? undefined : "0");
    if (saved === undefined && stays && el && el.scrollTop > 0) sessionStorage.setItem(key, how.current.save(el));
  }, [key, box]);
  useLayoutEffect(() => {
    const el = box.current;
    if (!el || wanted.current === undefined) return;
    if (how.current.restore(el, wanted.current)) wanted.current = undefined;
    else how.current.onShort?.();
  }, [key, size, box]);
  const shown = size > 0;
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    const take = () => (wanted.current = undefined);
    const keep = () => wanted.current === undefined && sessionStorage.setItem(key, how.current.save(el));
    el.addEventListener("scroll", keep);
    const acts = ["wheel", "pointerdown", "keydown"] as const;
    const around = el.parentElement ?? el; // with the buttons that scroll it
    acts.forEach((act) => around.addEventListener(act, take, { passive: true, capture: true }));
    return () => {
      el.removeEventListener("scroll", keep);
      acts.forEach((act) => around.removeEventListener(act, take, { capture: true }));
    };
  }, [key, shown, box]);
}
