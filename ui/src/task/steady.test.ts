import { expect, test } from "vitest";
import { steady } from "./steady";

const row = (id: string, minute: number, state = "running") => ({ id, state, created_at: `2026-01-01T00:${String(minute).padStart(2, "0")}:00Z` });
const shown = [row("c", 30), row("b", 20), row("a", 10)];

test("U-8: under the pointer no row moves, and each shows its news", () => {
  const next = [row("d", 40), row("c", 30), row("a", 10, "queued"), row("z", 5)];
  const got = steady(shown, next, true);
  expect(got.rows.map((r) => r.id)).toEqual(["c", "b", "a", "z"]);
  expect(got.rows[2]!.state).toBe("queued");
  expect([...got.left]).toEqual(["b"]);
  expect(got.waiting).toBe(1);
});

test("released, the list is as the server has it", () => {
  const next = [row("d", 40), row("c", 30)];
  expect(steady(shown, next, false)).toEqual({ rows: next, left: new Set(), waiting: 0 });
});

test("an empty list holds nothing back", () => {
  expect(steady([], shown, true).rows).toEqual(shown);
});
