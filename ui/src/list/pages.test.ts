import { expect, test } from "vitest";
import { newestFirst, toRead, withLive, withPage as withPageOf, type Page as PageOf, type Pages as PagesOf } from "./pages";

type Task = { id: string; state: string; created_at: string };
type Page = PageOf<Task>;
type Pages = PagesOf<Task>;
const withPage = (all: Pages, cursor: string, fresh: Page) => withPageOf(all, cursor, fresh, newestFirst);

// task n was created in second n, so the newest has the greatest n.
const task = (n: number, state = "running") => ({ id: `task_${n}`, state, created_at: new Date(n * 1000).toISOString(), readAt: 0 }) as never as Page["items"][number];
const page = (ns: number[], next: string | undefined, readAt = 0): Page => ({ items: ns.map((n) => task(n)), next, readAt });
const list: Pages = { pages: [page([9, 8, 7], "a", 10), page([6, 5, 4], "b", 20), page([3, 2, 1], undefined, 30)], pageParams: ["", "a", "b"] };
const numbers = (all: Pages) => all.pages.map((p) => p.items.map((t) => Number(t.id.slice(5))));

test("a page that is read again takes the place of the old one, and the others stay as they are", () => {
  const got = withPage(list, "a", { ...page([6, 5, 4], "b2", 99), items: [task(6), task(5, "queued"), task(4)] });
  expect(numbers(got)).toEqual([[9, 8, 7], [6, 5, 4], [3, 2, 1]]);
  expect(got.pages[1]!.items[1]!.state).toBe("queued");
  expect(got.pages[0]).toBe(list.pages[0]);
  expect(got.pageParams).toEqual(["", "a", "b2"]);
});

test("tasks that join a page push others to the next one, which then begins after it", () => {
  const got = withPage(list, "", page([11, 10, 9], "c", 99));
  expect(numbers(got)).toEqual([[11, 10, 9], [8, 7, 6, 5, 4], [3, 2, 1]]);
  expect(got.pageParams).toEqual(["", "c", "b"]);
  expect(got.pages[1]!.readAt).toBe(20);
});

test("a page without a next one makes one of the tasks that it has no room for", () => {
  const got = withPage(list, "b", page([3, 2.5 as number, 2], "d", 99));
  expect(numbers(got)).toEqual([[9, 8, 7], [6, 5, 4], [3, 2.5, 2], [1]]);
  expect(got.pageParams).toEqual(["", "a", "b", "d"]);
  expect(got.pages[3]!.next).toBeUndefined();
});

test("tasks that left make room for those of the next pages, and no task is there twice", () => {
  expect(numbers(withPage(list, "", page([9, 7, 5], "c")))).toEqual([[9, 7, 5], [4], [3, 2, 1]]);
  const far = withPage(list, "", page([9, 4, 3], "c"));
  expect(numbers(far)).toEqual([[9, 4, 3], [2, 1]]);
  expect(far.pageParams).toEqual(["", "c"]);
});

test("an answer that is the end of the list ends it", () => {
  const got = withPage(list, "a", page([6], undefined));
  expect(numbers(got)).toEqual([[9, 8, 7], [6]]);
  expect(got.pageParams).toEqual(["", "a"]);
});

test("a page that is no longer part of the list changes nothing", () => {
  expect(withPage(list, "gone", page([6], undefined))).toBe(list);
});

test("of the pages in view two are read, those that were read the longest time ago", () => {
  expect(toRead(list, ["task_8", "task_1"], 100)).toEqual(["", "a"]);
  expect(toRead(list, ["task_5", "task_2"], 100)).toEqual(["a", "b"]);
  expect(toRead(list, ["task_5", "task_2"], 25)).toEqual(["a"]);
  expect(toRead(list, ["task_2", "task_2"], 25)).toEqual([]);
  expect(toRead(list, [], 100)).toEqual([""]);
  expect(toRead(list, ["task_99", "task_98"], 100)).toEqual([""]); // of the stream alone
});

const time = (t: Task) => Date.parse(t.created_at);
const live = (...ns: number[]) => new Map(ns.map((n) => [`task_${n}`, task(n, "live")]));
const ids = (all: Map<string, Task>) => [...all.keys()].map((id) => Number(id.slice(5))).toSorted((a, b) => b - a);
const readAt = (at: number): Pages => ({ ...list, pages: list.pages.map((p) => ({ ...p, items: p.items.map((t) => ({ ...t, readAt: at })) })) });

test("rows of the stream take the place of those that were read, and new ones join them", () => {
  const got = withLive(readAt(5), { rows: live(10, 9), most: 2, at: 9 }, time);
  expect(ids(got)).toEqual([10, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
  expect(got.get("task_9")!.state).toBe("live");
});

test("a row that the stream would have is gone, and one that it has no room for stays", () => {
  expect(ids(withLive(readAt(5), { rows: live(9, 7), most: 2, at: 9 }, time))).toEqual([9, 7, 6, 5, 4, 3, 2, 1]);
  expect(ids(withLive(readAt(5), { rows: live(9, 7), most: 200, at: 9 }, time))).toEqual([9, 7]);
  expect(ids(withLive(readAt(5), { rows: live(), most: 200, at: 9 }, time))).toEqual([]);
});

test("a row that was read after the stream last said something stays, and so do all before it said anything", () => {
  expect(ids(withLive(readAt(10), { rows: live(9), most: 200, at: 9 }, time))).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1]);
  expect(ids(withLive(readAt(5), { rows: undefined, most: 200, at: 9 }, time))).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1]);
});
