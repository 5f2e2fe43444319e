type Row = { id: string; created_at: string };

export type Steady<T> = { rows: T[]; left: Set<string>; waiting: number };

// steady returns the rows to show. While held, because the pointer or the focus is among them, no row
// changes its place: one that left the list stays until it is released, new ones wait, and only older
// ones join at the end.
export function steady<T extends Row>(shown: readonly T[], next: readonly T[], held: boolean): Steady<T> {
  if (!held || shown.length === 0) return { rows: [...next], left: new Set(), waiting: 0 };
  const now = new Map(next.map((r) => [r.id, r]));
  const before = new Set(shown.map((r) => r.id));
  const last = Date.parse(shown[shown.length - 1]!.created_at);
  const rows = shown.map((r) => now.get(r.id) ?? r);
  let waiting = 0;
  for (const r of next) {
    if (before.has(r.id)) continue;
    if (Date.parse(r.created_at) < last) rows.push(r);
    else waiting++;
  }
  return { rows, left: new Set(shown.filter((r) => !now.has(r.id)).map((r) => r.id)), waiting };
}
