import { useEffect, useRef, useSyncExternalStore } from "react";

const name = "perdure.keys";
const together = 1200; // ms between the two keys of one shortcut
const observers = new Set<() => void>();
const on = () => localStorage.getItem(name) !== "off";

// useSingleKeys reports whether single keys act in this browser, and returns how to switch them.
export function useSingleKeys(): [boolean, (on: boolean) => void] {
  const now = useSyncExternalStore((fn) => (observers.add(fn), () => observers.delete(fn)), on);
  return [
    now,
    (want) => {
      if (want) localStorage.removeItem(name);
      else localStorage.setItem(name, "off");
      observers.forEach((fn) => fn());
    },
  ];
}

// typing reports whether a key belongs to a field or to a dialog.
function typing(target: EventTarget | null): boolean {
  const el = target as HTMLElement | null;
  return !!el?.closest?.("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable], [role=dialog], [role=menu], [role=listbox]");
}

// useKeys runs a function for a single key. A key that is held down acts once.
export function useKeys(keys: Record<string, () => void>, enabled = true) {
  const [may] = useSingleKeys();
  const latest = useRef(keys);
  useEffect(() => {
    latest.current = keys;
  });
  useEffect(() => {
    if (!may || !enabled) return;
    let led = 0; // when g was pressed, with which a key leads to a page
    const press = (e: KeyboardEvent) => {
      if (e.defaultPrevented || e.repeat || e.ctrlKey || e.metaKey || e.altKey || e.isComposing || typing(e.target)) return;
      const second = Date.now() - led < together;
      led = e.key === "g" ? Date.now() : 0;
      if (second) return;
      const act = latest.current[e.key];
      if (!act) return;
      e.preventDefault();
      act();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, [may, enabled]);
}
