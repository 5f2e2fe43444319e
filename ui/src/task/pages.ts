import type { Task } from "../event/types";

// Row is a task and when the page that it is on was read, by the clock of the server. 0: it came from the
// stream.
export type Row = Task & { readAt: number };

// Page is one page of a list of tasks, the newest task first. next continues after it.
export type Page = { items: Row[]; next?: string; readAt: number };

// Pages is what a list has read so far: pages[i] begins at the cursor cursors[i].
export type Pages = { pages: Page[]; pageParams: string[] };

const created = new WeakMap<Task, number>();

// createdAt returns when a task was created, in ms.
export function createdAt(t: Task): number {
  let at = created.get(t);
  if (at === undefined) created.set(t, (at = Date.parse(t.created_at)));
  return at;
}

// newestFirst orders tasks as the server does.
export const newestFirst = (a: Task, b: Task): number => createdAt(b) - createdAt(a) || (a.id < b.id ? 1 : -1);

// withPage puts a page that was read again in its place, so that no two pages have the same task. The tasks
// that it no longer has room for go to the page after it, which then begins where this one ends.
export function withPage(all: Pages, cursor: string, fresh: Page): Pages {
  const at = all.pageParams.indexOf(cursor);
  if (at < 0) return all;
  const pages = [...all.pages.slice(0, at), fresh];
  const pageParams = all.pageParams.slice(0, at + 1);
  if (!fresh.next) return { pages, pageParams };
  const last = fresh.items.at(-1)!;
  const rest = (p: Page): Page => ({ ...p, items: p.items.filter((t) => newestFirst(t, last) > 0) });
  const [pushed, ...later] = all.pages.slice(at).map(rest);
  const kept = later.map((page, i) => ({ page, cursor: all.pageParams[at + 1 + i]! })).filter(({ page }) => page.items.length > 0);
  const first = kept.shift();
  if (first) kept.unshift({ page: { ...first.page, items: [...pushed!.items, ...first.page.items] }, cursor: fresh.next });
  else if (pushed!.items.length > 0) kept.push({ page: pushed!, cursor: fresh.next });
  return { pages: [...pages, ...kept.map((k) => k.page)], pageParams: [...pageParams, ...kept.map((k) => k.cursor)] };
}

// toRead returns the cursors of the pages with the rows in view, at most two: those that were read the
// longest time ago, but not within the last while.
export function toRead(all: Pages, view: readonly string[], before: number): string[] {
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
