import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { accessible, connection, enter, expect, fits, picture, test } from "./rig";
import { measureFrames } from "./scale";
import type { Server } from "./server";

// priced starts the server again with prices for its scripted model.
async function priced(server: Server) {
  const file = join(server.home, "prices.json");
  writeFileSync(file, JSON.stringify({ as_of: "2026-11-01", models: [{ model: "agent", input: "3.75", cached: "0.5", output: "2" }] }));
  server.more.PERDURE_PRICES = file;
  await server.kill();
  await server.start();
}

// done waits until a session has nothing to do.
async function done(server: Server, session: string) {
  await server.api("GET", `/v1/sessions/${session}?wait=30s`);
}

type Line = { key: string; part?: string; cost: Record<string, string>; model_calls: number; input_tokens: number; cached_tokens: number; unpriced: number };
type Report = { items: Line[]; total: Line & { failed_model_calls?: number; failed_cost?: Record<string, string> } };

const monthOfCLI = () => {
  const now = new Date();
  const day = (n: number) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + n, 1)).toISOString().slice(0, 10);
  return ["--since", day(0), "--until", day(1)];
};

async function cli(server: Server, by: string, ...more: string[]): Promise<Report> {
  return JSON.parse(await server.cli("cost", "report", "--by", by, ...monthOfCLI(), ...more, "-o", "json")) as Report;
}

const rows = (page: Page) => page.getByTestId("groups").locator("tbody tr:not(.sum)");

test("the figures agree with perdure cost report of the same time", async ({ page, server }) => {
  await priced(server);
  const first = await server.session("Dear one");
  await server.say(first, "spend");
  await done(server, first);
  const second = await server.session("Cheap one");
  await server.say(second, "hello");
  await done(server, second);
  await server.say(second, "stumble");
  await done(server, second);
  await enter(page, server);
  const { items } = await server.api<{ items: { title: string; cost: { amounts: Record<string, string>; unpriced: number } }[] }>("GET", "/v1/sessions");
  for (const s of items) {
    expect(s.cost.unpriced).toBe(0);
    await expect(page.getByRole("link", { name: new RegExp(s.title) })).toContainText(`${s.cost.amounts.usd} usd`);
  }
  await page.goto(`${server.url}/ui/costs`);

  const report = await cli(server, "session");
  expect(report.items).toHaveLength(2);
  expect(report.items.map((l) => l.cost.usd).toSorted()).toEqual(items.map((s) => s.cost.amounts.usd).toSorted());
  expect(report.total.failed_model_calls).toBe(1);
  const total = `${report.total.cost.usd} usd`;
  await expect(page.getByTestId("month-total").locator("dd")).toHaveText(total);
  await expect(page.getByTestId("today").locator("dd")).toHaveText(total);
  await expect(page.getByTestId("waste")).toContainText(`${report.total.failed_cost?.usd} usd`);
  await expect(page.getByTestId("groups-total")).toContainText(total);
  await expect(page.getByText(`${(report.total.input_tokens - report.total.cached_tokens).toLocaleString("en")} fresh, ${report.total.cached_tokens.toLocaleString("en")} cached`)).toBeVisible();
  for (const [group, key] of [
    ["session", "Dear one"],
    ["agent", "helper"],
    ["model", undefined],
    ["tool", "(steps)"],
    ["schedule", "(none)"],
  ] as const) {
    await page.getByRole("navigation", { name: "Group by" }).getByRole("link", { name: group }).click();
    await expect(page).toHaveURL(new RegExp(group === "session" ? "group=session|costs" : `group=${group}`));
    const told = await cli(server, group);
    await expect(rows(page)).toHaveCount(told.items.length);
    for (const [i, item] of told.items.entries()) {
      await expect(rows(page).nth(i)).toContainText(`${item.cost.usd} usd`);
    }
    if (key) await expect(rows(page).first()).toContainText(key);
  }
  const days = await cli(server, "day", "--split", "model");
  await page.getByText("The same as a table").click();
  await expect(page.locator(".twin tbody tr")).toHaveCount(days.items.length);
  await expect(page.locator(".twin tbody tr").first()).toContainText(`${days.items[0]!.part}${days.items[0]!.cost.usd} usd`);
  await expect(page.getByText(/An estimate: .*Read at \d\d:\d\d.*prices as of 2026-11-01/)).toBeVisible();
  await page.getByText("As a command").first().click();
  await expect(page.getByText(`perdure cost report --by schedule ${monthOfCLI().join(" ")}`)).toBeVisible();
  await accessible(page);
  await picture(page, "costs-priced-light");

  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "JSON" }).click()]);
  const saved = JSON.parse(readFileSync((await file.path())!, "utf8")) as Report;
  expect(saved.total).toEqual((await cli(server, "schedule")).total);
  const [table] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "CSV" }).click()]);
  expect(readFileSync((await table.path())!, "utf8")).toContain(`(none),,${report.total.model_calls},`);

  await page.getByRole("link", { name: "The month before" }).click();
  await expect(page.getByTestId("month-total").locator("dd")).toHaveText("-");
  await page.goBack();
  await expect(page.getByTestId("month-total").locator("dd")).toHaveText(total);
});

test("an unknown price is flagged, and never shown as 0", async ({ page, server }) => {
  const session = await server.session("Nobody knows");
  await server.say(session, "spend");
  await done(server, session);
  await enter(page, server);
  await expect(page.getByRole("link", { name: /Nobody knows/ })).toContainText("cost unknown");
  await page.goto(`${server.url}/ui/costs`);
  await expect(page.getByTestId("unknown-price")).toContainText("The cost is unknown");
  await expect(page.getByTestId("unknown-price")).toContainText(/1 model call of .*agent has no known price/);
  await expect(page.getByTestId("month-total").locator("dd")).toHaveText("unknown");
  await expect(page.getByTestId("today").locator("dd")).toHaveText("unknown");
  await expect(page.getByTestId("forecast")).toContainText("at least");
  await expect(rows(page).first()).toContainText("unknown");
  await expect(page.getByText("By day and model, in tokens")).toBeVisible();
  await expect(page.getByText(/\b0 usd/)).toHaveCount(1); // the forecast, as the least
  await accessible(page);
  await picture(page, "costs-unknown-light");
});

test("a budget: set, spent, its ledger, and a change that says who will pause", async ({ page, server }) => {
  await priced(server);
  const session = await server.session("Spender");
  await enter(page, server, "costs");
  await expect(page.getByText("There are no budgets")).toBeVisible();
  await page.getByRole("button", { name: "New budget" }).click();
  await page.getByRole("combobox", { name: /^For/ }).selectOption("session");
  await page.getByRole("textbox", { name: "Session id" }).fill(session);
  await page.getByRole("combobox", { name: "Period" }).fill("none");
  await page.getByRole("textbox", { name: /^Limit/ }).fill("1");
  await page.getByRole("textbox", { name: /^Soft limit/ }).fill("0.9");
  await expect(page.getByTestId("affected")).toContainText("No session pauses now");
  await page.getByRole("dialog").getByText("As a command").click();
  await expect(page.getByText(`perdure budget set session ${session} --limit 1 --currency usd --soft 0.9 --period none --action stop`)).toBeVisible();
  await accessible(page);
  await page.getByRole("button", { name: "Save" }).click();
  const budget = page.getByTestId("budget");
  await expect(budget).toContainText("0 of 1 usd");
  let reads = 0;
  page.on("request", (r) => void (/\/v1\/budgets$/.test(r.url()) && reads++));
  await measureFrames(page, 12_000);
  expect(reads, "reads of the budgets while no session changes").toBeLessThanOrEqual(1);
  await server.say(session, "spend");
  await done(server, session);
  const standing = (await server.api<{ items: { id: string; spent: string }[] }>("GET", "/v1/budgets")).items[0]!;
  await page.getByRole("link", { name: "Ledger" }).click();
  await expect(page).toHaveURL(new RegExp(`budget=${standing.id}`));
  await expect(page.getByTestId("ledger")).toContainText("limit set");
  await expect(budget).toContainText(`${standing.spent} of 1 usd`);
  await expect(page.getByTestId("ledger")).toContainText(standing.spent);

  await budget.getByRole("button", { name: "Change…" }).click();
  await page.getByRole("textbox", { name: /^Soft limit/ }).fill("");
  await page.getByRole("textbox", { name: /^Limit/ }).fill("0.1");
  await expect(page.getByTestId("affected")).toContainText(`${standing.spent} is used already, so sessions stop at their next step.`);
  await expect(page.getByTestId("affected")).toContainText("1 idle session would stop with the next message");
  await picture(page, "costs-budget-light");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(budget).toContainText("Used up");
  await budget.getByRole("button", { name: "Change…" }).click();
  await page.getByRole("textbox", { name: /^Soft limit/ }).fill("5");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("dialog").getByRole("alert")).toContainText("it must be at most the limit");
  await page.getByRole("button", { name: "Close" }).click();
  await budget.getByRole("button", { name: "Remove…" }).click();
  await page.getByRole("button", { name: "Remove", exact: true }).click();
  await expect(page.getByText("There are no budgets")).toBeVisible();
});

for (const scheme of ["light", "dark"] as const) {
  for (const width of [380, 1440]) {
    test(`the page of costs at ${width} px, ${scheme}`, async ({ page, server }) => {
      await page.emulateMedia({ colorScheme: scheme });
      await page.setViewportSize({ width, height: 1600 });
      await priced(server);
      const session = await server.session("The dearest session of the whole week, with a long title");
      await server.cli("budget", "set", "org", "--limit", "20", "--soft", "15", "--period", "month Europe/Berlin");
      await server.cli("budget", "set", "session", session, "--limit", "0.3", "--action", "pause");
      await server.say(session, "spend");
      await done(server, session);
      const other = await server.session("Another");
      await server.say(other, "stumble");
      await done(server, other);
      const { items } = await server.api<{ items: { id: string; scope: string }[] }>("GET", "/v1/budgets");
      await enter(page, server, `costs?budget=${items.find((b) => b.scope === "session")!.id}`);
      await expect(page.getByTestId("ledger")).toBeVisible();
      await expect(rows(page)).toHaveCount(2);
      await expect(connection(page)).toHaveAttribute("data-state", "live");
      await fits(page);
      await accessible(page);
      await picture(page, `costs-${scheme}-${width}`);
    });
  }
}

test("each turn of a transcript shows what it cost, and the header what all cost", async ({ page, server }) => {
  await priced(server);
  const id = await server.session("Turns");
  for (const text of ["spend", "spend more"]) {
    await server.say(id, text);
    await done(server, id);
  }
  const report = JSON.parse(await server.cli("cost", "report", "--by", "turn", "--session", id, "-o", "json")) as Report;
  expect(report.items.map((l) => l.cost.usd)).toEqual(["0.255", "0.255"]);
  await enter(page, server, `sessions/${id}`);
  await expect(page.getByText(/Turn completed · .* · turn 1 · ≈ \$0\.255$/)).toBeVisible();
  await expect(page.getByText(/Turn completed · .* · turn 2 · ≈ \$0\.255$/)).toBeVisible();
  await expect(page.locator("header").getByText("≈ $0.51")).toBeVisible();
  await picture(page, "session-turn-costs");
});

test("Escape closes the dialogs of a budget, from each of their fields, and the focus returns", async ({ page, server }) => {
  await server.api("PUT", "/v1/budgets/org/default", { currency: "usd", limit: "5", period: "month", action: "stop" });
  await enter(page, server, "costs");
  for (const name of ["New budget", "Change…", "Remove…"]) {
    const opener = page.getByRole("button", { name });
    const dialog = page.getByRole("dialog");
    const fields = dialog.locator("select, input");
    for (let i = -1; i < 3; i++) {
      await opener.focus();
      await page.keyboard.press("Enter");
      await expect(dialog).toBeVisible();
      if (i >= 0 && i < (await fields.count())) await fields.nth(i).focus();
      await page.keyboard.press("Escape");
      await expect(dialog).toHaveCount(0);
      await expect(opener).toBeFocused();
    }
  }
});
