import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { queries } from "./api";

// Keys are shortcuts, by what is pressed: "p", or "g s" for two keys in a row. "ctrl+k" is pressed with
// Ctrl, or with Command on a Mac.
export type Keys = Record<string, { about: string; run: () => void }>;

// KeyGroup is what the list of keys shows.
export type KeyGroup = { name: string; keys: { key: string; about: string }[] };

const setting = "perdure.keys";

// keysOn reports whether shortcuts of a single key are on. Some people press keys by accident, or by
// voice, so they can be switched off.
export const keysOn = () => localStorage.getItem(setting) !== "off";

export function switchKeys(on: boolean) {
  localStorage.setItem(setting, on ? "on" : "off");
}

// typing reports whether a key belongs to what has the focus.
export function typing(target: EventTarget | null): boolean {
  if (!(target instanceof Element)) return false;
  return !!target.closest("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable=true], [role=combobox], [role=listbox], [role=menu], [role=slider], [role=grid]");
}

// pressed names what an event pressed. Empty: no shortcut.
export function pressed(e: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey">): string {
  const key = e.key.length === 1 ? e.key.toLowerCase() : "";
  if (!key || e.altKey) return "";
  return e.ctrlKey || e.metaKey ? `ctrl+${key}` : key;
}

const together = 1200; // ms between the two keys of one shortcut

// useKeys has shortcuts while a component is shown, and lists them under a name. The innermost component
// gets a key first. None works while a dialog is open or somebody types.
export function useKeys(name: string, keys: Keys) {
  const latest = useRef(keys);
  useEffect(() => {
    latest.current = keys;
  });
  const listed = JSON.stringify(Object.entries(keys).map(([key, { about }]) => ({ key, about })));
  useEffect(() => {
    const group: KeyGroup = { name, keys: JSON.parse(listed) as KeyGroup["keys"] };
    queries.setQueryData<KeyGroup[]>(["keys"], (all = []) => [...all, group]);
    return () => void queries.setQueryData<KeyGroup[]>(["keys"], (all = []) => all.filter((g) => g !== group));
  }, [name, listed]);
  useEffect(() => {
    let before = { key: "", at: 0 };
    const onKey = (e: KeyboardEvent) => {
      const key = pressed(e);
      if (!key || e.defaultPrevented || e.isComposing || e.repeat || document.querySelector("[role=dialog], [role=alertdialog]")) return;
      if (!key.startsWith("ctrl+") && (!keysOn() || typing(e.target))) return;
      const pair = Date.now() - before.at < together ? `${before.key} ${key}` : "";
      before = { key, at: Date.now() };
      const found = latest.current[pair] ?? (elsewhere(pair) ? undefined : latest.current[key]);
      if (!found) return;
      e.preventDefault();
      before.key = "";
      found.run();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
}

// elsewhere reports whether two keys are a shortcut of another component. Then the second key alone is
// none: a person who presses g a to see the approvals must not approve one.
function elsewhere(pair: string): boolean {
  return pair !== "" && !!queries.getQueryData<KeyGroup[]>(["keys"])?.some((g) => g.keys.some((k) => k.key === pair));
}

// useKeyGroups returns all shortcuts of what is shown.
export function useKeyGroups(): KeyGroup[] {
  return useQuery<KeyGroup[]>({ queryKey: ["keys"], queryFn: () => [], enabled: false, staleTime: Infinity, gcTime: Infinity }).data ?? [];
}
