import { oneLine } from "../text/text";
import { endOf, startOf, type Bar } from "./fold";
import type { Group } from "./search";

// Row is a bar, or the title of a group.
export type Row = { key: string; bar?: Bar; title?: string };

// rowsOf returns the bars of a range, in groups.
export function rowsOf(bars: readonly Bar[], from: number, to: number, group: Group | undefined, titles: Map<string, string>): Row[] {
  const inRange = bars.filter((b) => endOf(b) >= from && startOf(b) <= to);
  if (!group || group === "none") return inRange.map((bar) => ({ key: bar.id, bar }));
  const keyOf = (b: Bar) => (group === "turn" ? `${b.session} ${b.turn}` : group === "tool" ? b.tool : group === "agent" ? b.agent : b.session);
  const groups = new Map<string, Bar[]>();
  for (const b of inRange) {
    const known = groups.get(keyOf(b));
    if (known) known.push(b);
    else groups.set(keyOf(b), [b]);
  }
  return [...groups].flatMap(([key, list]) => [{ key: `group ${key}`, title: titleOf(group, key, list[0]!, titles) }, ...list.map((bar) => ({ key: bar.id, bar }))]);
}

function titleOf(group: Exclude<Group, "none">, key: string, first: Bar, titles: Map<string, string>): string {
  if (group === "session") return oneLine(titles.get(key) || key, 100);
  if (group === "turn") return first.turn ? `Turn from event ${first.seq}${titles.size > 1 ? ` of ${oneLine(titles.get(first.session) || first.session, 60)}` : ""}` : "Outside a turn";
  return oneLine(key || (group === "agent" ? "no name" : "no tool"), 100);
}
