import { describe, expect, test } from "vitest";
import { csv, decimal, forecast, micros, monthBeside, monthOf, periodWords, plus, type CostLine } from "./money";
import { costWords } from "./words";

const line = (more: Partial<CostLine>): CostLine => ({ key: "k", model_calls: 1, input_tokens: 10, cached_tokens: 4, output_tokens: 5, tool_calls: 0, duration_ms: 7, cost: {}, unpriced: 0, ...more });

describe("amounts lose no digit", () => {
  test.each([["0"], ["0.000001"], ["4.700002"], ["-0.700002"], ["9007199254740993.5"]])("%s", (text) => expect(decimal(micros(text))).toBe(text));
  test("a sum", () => expect(plus([line({ cost: { usd: "0.1" } }), line({ cost: { usd: "0.2", credits: "3" } })]).cost).toEqual({ usd: "0.3", credits: "3" }));
  test("no amount is 0", () => expect([micros("much"), micros(undefined)]).toEqual([0n, 0n]));
});

describe("an unknown price is never 0", () => {
  test.each<[Partial<CostLine>, string]>([
    [{ unpriced: 2 }, "unknown"],
    [{ unpriced: 1, cost: { usd: "0.3" } }, "unknown: 0.3 usd plus 1 model call without a price"],
    [{ cost: { usd: "0.3", credits: "2" } }, "2 credits, 0.3 usd"],
    [{}, "0 usd"],
    [{ model_calls: 0 }, "-"],
  ])("%j is %s", (more, want) => expect(costWords(line(more))).toBe(want));
  test("a sum counts the calls without a price", () => expect(costWords(plus([line({ unpriced: 1 }), line({ cost: { usd: "1" } })]))).toBe("unknown: 1 usd plus 1 model call without a price"));
});

test("a forecast continues the pace, and needs an hour", () => {
  const [since, until] = [Date.parse("2026-11-01"), Date.parse("2026-12-01")];
  expect(forecast(10_000_000n, since, until, Date.parse("2026-11-11"))).toBe(30_000_000n);
  expect(forecast(10_000_000n, since, until, since + 1000)).toBeUndefined();
  expect(forecast(10_000_000n, since, until, Date.parse("2027-01-01"))).toBe(10_000_000n);
});

test("months are those of UTC", () => {
  expect(monthOf("2026-12", 0)).toEqual({ name: "2026-12", since: "2026-12-01", until: "2027-01-01" });
  expect(monthOf("nonsense", Date.parse("2026-11-30T23:59:59Z")).name).toBe("2026-11");
  expect([monthBeside("2026-01", -1), monthBeside("2026-12", 1)]).toEqual(["2025-12", "2027-01"]);
});

test("a period in words", () => {
  expect(["none", "", "every 24h0m0s", "rolling 24h0m0s", "month", "month Europe/Berlin"].map(periodWords)).toEqual([
    "in total", "in total", "every 24h0m0s", "in the last 24h0m0s", "each month", "each month, Europe/Berlin",
  ]);
});

test("csv quotes, and lets no spreadsheet compute", () => {
  const report = { group: "session", prices_as_of: "", source: "", total: line({}), items: [line({ key: '=HYPERLINK("x")', cost: { usd: "1" } }), line({ key: "a,b" })] };
  expect(csv(report).split("\r\n")).toEqual([
    "session,part,model_calls,input_tokens,cached_tokens,output_tokens,tool_calls,duration_ms,usd,unpriced_model_calls,failed_model_calls",
    `"'=HYPERLINK(""x"")",,1,10,4,5,0,7,1,0,0`,
    `"a,b",,1,10,4,5,0,7,,0,0`,
    "",
  ]);
});
