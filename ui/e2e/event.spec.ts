import { accessible, connection, enter, expect, fits, picture, test } from "./rig";
import { importLarge, large } from "./large";

test("U-1: a session of 100,000 events opens newest first, with few rows and few requests", async ({ page, server }) => {
  test.setTimeout(300_000);
  const last = await importLarge(server, 10_000);
  expect(last).toBeGreaterThan(99_000);
  await enter(page, server);
  const pages: string[] = [];
  page.on("request", (r) => /\/events\?/.test(r.url()) && !r.url().includes("topics=") && pages.push(r.url()));
  const rows = () => page.evaluate(() => document.querySelectorAll("li, tr, article").length);

  let began = Date.now();
  await page.goto(`${server.url}/ui/sessions/${large}/events`);
  await expect(page.locator(`[data-seq="${last}"]`)).toContainText("session.idled");
  console.log(`events: newest shown after ${Date.now() - began} ms, ${pages.length} requests, ${await rows()} rows`);
  expect(await rows()).toBeLessThanOrEqual(300);
  expect(pages.length).toBeLessThanOrEqual(6);
  const order = await page.locator("[data-seq]").evaluateAll((all) => all.map((el) => Number((el as HTMLElement).dataset.seq)));
  expect(order).toEqual(order.toSorted((a, b) => b - a));

  await page.getByLabel("Go to the event with this number").fill("50000");
  await page.keyboard.press("Enter");
  await expect(page.locator('a[data-seq="50000"]')).toContainText(/\w\.\w/);
  await expect(page.getByTestId("event")).toHaveAttribute("data-seq", "50000");
  expect(await rows()).toBeLessThanOrEqual(300);
  expect(pages.length).toBeLessThanOrEqual(24);

  pages.length = 0;
  began = Date.now();
  await page.goto(`${server.url}/ui/sessions/${large}`);
  await expect(page.getByText("Hello from the script.").last()).toBeVisible();
  console.log(`transcript: newest shown after ${Date.now() - began} ms, ${pages.length} requests, ${await rows()} rows`);
  expect(await rows()).toBeLessThanOrEqual(300);
  expect(pages.length).toBeLessThanOrEqual(6);

  pages.length = 0;
  began = Date.now();
  await page.goto(`${server.url}/ui/sessions/${large}/timeline`);
  await expect(page.getByTestId("bar-count")).toContainText("bars");
  console.log(`timeline: shown after ${Date.now() - began} ms, ${pages.length} requests, ${await rows()} rows, ${await page.getByTestId("bar-count").textContent()}`);
  expect(await rows()).toBeLessThanOrEqual(300);
  expect(pages.length).toBeLessThanOrEqual(6);
});

test("U-9: a deep link to an event keeps filter and selection over a reload, back and forward", async ({ page, server }) => {
  const id = await server.session("Deep");
  await server.say(id, "hello");
  await server.api("GET", `/v1/sessions/${id}?wait=20s`);
  await enter(page, server, `sessions/${id}/events?types=turn.*&seq=4`);
  const shown = page.getByTestId("event");
  await expect(shown).toHaveAttribute("data-seq", "4");
  await expect(shown.getByRole("heading", { level: 2 })).toContainText("turn.started");
  await expect(shown.getByRole("row", { name: /^state/ }).or(shown.getByRole("row", { name: /^turn/ })).first()).toBeVisible();
  await page.reload();
  await expect(shown).toHaveAttribute("data-seq", "4");
  await expect(page.getByTestId("events").locator("a")).toHaveCount(2);
  await page.getByTestId("events").getByText("turn.completed").click();
  await expect(shown.getByRole("heading", { level: 2 })).toContainText("turn.completed");
  await expect(page).toHaveURL(/types=turn/);
  await page.getByRole("link", { name: /Remove the filter types/ }).click();
  await expect(page.locator('a[data-seq="1"]')).toContainText("session.created");
  await page.goBack();
  await expect(page.getByTestId("events").locator("a")).toHaveCount(2);
  await page.goForward();
  await expect(page.locator('a[data-seq="1"]')).toBeVisible();
});

test("events: neighbours of the same call, JSON, filters by types, text and time, keys", async ({ page, server }) => {
  const id = await server.session("Charge");
  await enter(page, server, `sessions/${id}/events`);
  await expect(page.locator('a[data-seq="1"]')).toBeVisible();
  await expect(connection(page)).toHaveAttribute("data-state", "live");
  await server.say(id, "charge");
  await expect(page.getByText("approval.requested")).toBeVisible(); // without a reload
  await page.getByText("approval.requested").click();
  const shown = page.getByTestId("event");
  await expect(shown.getByText("open approvals")).toBeVisible();
  await expect(shown.getByRole("group", { name: /as JSON/ })).toContainText("args_digest");
  await accessible(page);
  await picture(page, "events-light");
  await shown.getByRole("link", { name: /previous: #\d+ / }).first().click();
  await expect(shown.getByRole("heading", { level: 2 })).not.toContainText("approval.requested");

  await page.getByTestId("events").focus();
  const before = Number(await shown.getAttribute("data-seq"));
  await page.keyboard.press("ArrowDown");
  await expect(shown).toHaveAttribute("data-seq", String(before - 1));

  await page.getByRole("button", { name: /^Types/ }).click();
  await accessible(page);
  await page.getByRole("checkbox", { name: "approval.*" }).click();
  await page.getByRole("button", { name: "Show these" }).click();
  await expect(page.getByTestId("events").locator("a")).toHaveCount(1);
  await page.getByRole("link", { name: /Remove the filter types/ }).click();
  await page.getByLabel("Text in the event").fill("CHARGE the customer");
  await page.keyboard.press("Enter");
  await expect(page.getByTestId("events").locator("a").first()).toContainText("I charge the customer");
  await page.getByRole("button", { name: "More filters…" }).click();
  await page.getByLabel("From", { exact: true }).fill("yesterday");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert")).toContainText("is no time");
  await page.getByLabel("From", { exact: true }).fill("1h");
  await page.getByLabel("Actor").fill("nobody");
  await page.keyboard.press("Enter");
  await expect(page.getByText("No event matches the filter.")).toBeVisible();
});

test("events: an unknown session, an unknown event, and the list of sessions", async ({ page, server }) => {
  const id = await server.session("Journal of March");
  await enter(page, server, "sessions/session_00000000000000000000000000000000/events");
  await expect(page.getByRole("heading", { name: "There is no such session" })).toBeVisible();
  await page.goto(`${server.url}/ui/sessions/${id}/events?seq=99`);
  await expect(page.getByText("This session has no event 99.")).toBeVisible();
  await page.goto(`${server.url}/ui/events`);
  await accessible(page);
  await page.getByRole("link", { name: /Journal of March/ }).click();
  await expect(page).toHaveURL(new RegExp(`${id}/events`));
});

for (const scheme of ["light", "dark"] as const) {
  for (const width of [380, 1440]) {
    test(`events and timeline at ${width} px, ${scheme}`, async ({ page, server }) => {
      await page.emulateMedia({ colorScheme: scheme });
      await page.setViewportSize({ width, height: 800 });
      const id = await server.session("A session with a rather long title that has to break somewhere");
      await server.say(id, "background");
      await expect.poll(async () => (await server.api<{ items: unknown[] }>("GET", `/v1/tasks?session=${id}`)).items.length).toBe(1);
      await server.say(id, "charge");
      await server.say(await server.session("Other"), "hello");
      await enter(page, server);
      for (const [name, path, shown] of [
        ["events", `sessions/${id}/events`, page.getByText("approval.requested")],
        ["event", `sessions/${id}/events?seq=2`, page.getByTestId("event").getByText("State before and after")],
        ["journals", "events", page.getByRole("link", { name: /rather long title/ })],
        ["timeline", `sessions/${id}/timeline`, page.getByTestId("bars-table")],
        ["timeline-of-all", "timeline", page.getByTestId("bars-table")],
      ] as const) {
        await page.goto(`${server.url}/ui/${path}`);
        await expect(shown).toBeVisible();
        await expect(connection(page)).toHaveAttribute("data-state", "live");
        await fits(page);
        await accessible(page);
        await picture(page, `${name}-${scheme}-${width}`);
      }
    });
  }
}
