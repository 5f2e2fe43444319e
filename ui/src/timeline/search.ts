export const groups = ["none", "turn", "tool", "agent", "session"] as const;
export type Group = (typeof groups)[number];

// TimelineSearch is what the address of a timeline holds. from and to are the range in ms since 1970.
export type TimelineSearch = { from?: number; to?: number; group?: Group };

// readTimeline takes what it knows from an address.
export function readTimeline(s: Record<string, unknown>): TimelineSearch {
  const out: TimelineSearch = {};
  const from = Number(s.from);
  const to = Number(s.to);
  if (s.from !== undefined && s.to !== undefined && Number.isFinite(from) && Number.isFinite(to) && from < to) Object.assign(out, { from, to });
  const group = groups.find((g) => g === s.group);
  if (group) out.group = group;
  return out;
}
