// Row is an item of a list and when the page that it is on was read, by the clock of the server. 0: it
// came from the stream.
export type Row<T> = T & { readAt: number };

// Page is one page of a list. next continues after it.
export type Page<T> = { items: Row<T>[]; next?: string; readAt: number };

// Pages is what a list has read so far: pages[i] begins at the cursor pageParams[i].
export type Pages<T> = { pages: Page<T>[]; pageParams: string[] };

// Order is the order in which the server sends a list.
export type Order<T> = (a: T, b: T) => number;

type Named = { id: string };
type Created = Named & { created_at: string };

const created = new WeakMap<Created, number>();

// createdAt returns when something was created, in microseconds.
export function createdAt(t: Created): number {
  let at = created.get(t);
  if (at === undefined) created.set(t, (at = instant(t.created_at)));
  return at;
}

// instant returns a moment in microseconds, as the server compares it.
export function instant(time: string): number {
  return 1000 * Date.parse(time) + Number((/\.\d{3}(\d{1,3})/.exec(time)?.[1] ?? "").padEnd(3, "0"));
}

// newestFirst is the order of sessions and tasks.
export const newestFirst: Order<Created> = (a, b) => createdAt(b) - createdAt(a) || (a.id < b.id ? 1 : -1);

// withPage puts a page that was read again in its place, so that no two pages have the same row. The rows
// that it no longer has room for go to the page after it, which then begins where this one ends.
export function withPage<T extends Named>(all: Pages<T>, cursor: string, fresh: Page<T>, order: Order<T>): Pages<T> {
  const at = all.pageParams.indexOf(cursor);
  if (at < 0) return all;
  const pages = [...all.pages.slice(0, at), fresh];
  const pageParams = all.pageParams.slice(0, at + 1);
  if (!fresh.next) return { pages, pageParams };
  const last = fresh.items.at(-1)!;
  const shown = new Set(fresh.items.map((t) => t.id));
  const rest = (p: Page<T>): Page<T> => ({ ...p, items: p.items.filter((t) => order(t, last) > 0 && !shown.has(t.id)) });
  const [pushed, ...later] = all.pages.slice(at).map(rest);
  const kept = later.map((page, i) => ({ page, cursor: all.pageParams[at + 1 + i]! })).filter(({ page }) => page.items.length > 0);
  const first = kept.shift();
  if (first) kept.unshift({ page: { ...first.page, items: [...pushed!.items, ...first.page.items] }, cursor: fresh.next });
  else if (pushed!.items.length > 0) kept.push({ page: pushed!, cursor: fresh.next });
  return { pages: [...pages, ...kept.map((k) => k.page)], pageParams: [...pageParams, ...kept.map((k) => k.cursor)] };
}

// toRead returns the cursors of the pages with the rows in view, at most two: those that were read the
// longest time ago, but not within the last while.
export function toRead<T extends Named>(all: Pages<T>, view: readonly string[], before: number): string[] {
  const has = (id: string | undefined) => all.pages.findIndex((p) => p.items.some((t) => t.id === id));
  const from = Math.max(0, has(view[0]));
  const to = Math.max(from, has(view.at(-1)));
  return all.pageParams
    .map((cursor, i) => ({ cursor, i, at: all.pages[i]!.readAt }))
    .filter(({ i, at }) => i >= from && i <= to && at < before)
    .sort((a, b) => a.at - b.at)
    .slice(0, 2)
    .map(({ cursor }) => cursor);
}

// Live is what the stream said of a list: the newest rows, at most so many, and when the last of it
// arrived by the clock of the server. rows is undefined before it said anything.
export type Live<T> = { rows: ReadonlyMap<string, T> | undefined; most: number; at: number };

// withLive joins the rows of pages with those of the stream. A row that was read before the stream last
// said something, and that the stream would have if it were still in the list, is gone: the stream has
// the whole list, or the row is newer than the oldest one that the stream has.
export function withLive<T extends Named>(pages: Pages<T> | undefined, live: Live<T>, time: (row: T) => number): Map<string, Row<T>> {
  const all = new Map<string, Row<T>>();
  pages?.pages.forEach((p) => p.items.forEach((t) => all.set(t.id, t)));
  if (!live.rows) return all;
  const oldest = live.rows.size < live.most ? -Infinity : [...live.rows.values()].reduce((least, t) => Math.min(least, time(t)), Infinity);
  for (const [id, row] of all) if (!live.rows.has(id) && row.readAt < live.at && time(row) > oldest) all.delete(id);
  live.rows.forEach((t, id) => all.set(id, { ...t, readAt: all.get(id)?.readAt ?? 0 }));
  return all;
}
