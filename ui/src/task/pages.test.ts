import { expect, test } from "vitest";
import { toRead, withPage, type Page, type Pages } from "./pages";

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
