import type { Page } from "@playwright/test";
import { accessible, connection, enter, expect, fits, picture, test } from "./rig";
import type { Server } from "./server";

type Made = { id: string };

const schedule = (server: Server, session: string, more: object) =>
  server.api<Made>("POST", "/v1/schedules", { session_id: session, cron_expression: "30 7 * * 1-5", timezone: "Europe/Berlin", action: { message: "hello" }, ...more });

const preview = (page: Page) => page.getByTestId("preview");

// lastSunday returns the last Sunday of a month, on which Europe changes its clocks, in the next year in
// which it is to come.
function lastSunday(month: number): { date: string; day: number } {
  for (let year = new Date().getUTCFullYear(); ; year++) {
    const end = new Date(Date.UTC(year, month, 0));
    end.setUTCDate(end.getUTCDate() - end.getUTCDay());
    if (end.getTime() > Date.now() + 86_400_000) return { date: end.toISOString().slice(0, 10), day: end.getUTCDate() };
  }
}

test("a schedule is created with live words, triggered, and its fire is among the past ones", async ({ page, server }) => {
  const session = await server.session("Reports");
  await enter(page, server, "schedules");
  await expect(page.getByText("There are no schedules yet")).toBeVisible();
  await accessible(page);
  await page.getByRole("link", { name: "New schedule" }).click();
  await expect(page.getByText("Enter an expression")).toBeVisible();
  await page.getByLabel(/^Session/).selectOption(session);
  await page.getByLabel(/^Title/).fill("Morning report");
  await page.getByRole("combobox", { name: "Time zone" }).fill("Europe/Berlin");
  await page.getByRole("textbox", { name: "Expression" }).fill("30 7 * * 1-5");
  await expect(preview(page)).toContainText("at 07:30, from Monday to Friday, Europe/Berlin");
  await expect(preview(page).getByRole("listitem")).toHaveCount(5);
  await page.getByRole("textbox", { name: "Message" }).fill("hello");
  await page.getByText("As a command").click();
  await expect(page.getByText(`perdure schedule create '30 7 * * 1-5' --tz Europe/Berlin --session ${session} --message hello --title 'Morning report'`)).toBeVisible();
  await accessible(page);
  await picture(page, "schedule-new-light");
  await page.getByRole("button", { name: "Create schedule" }).click();

  await expect(page.getByRole("heading", { name: "Morning report" })).toBeVisible();
  await expect(page).toHaveURL(/schedules\/sched_/);
  await expect(page.getByTestId("schedule-state")).toHaveText("On");
  await expect(page.locator(".next-fires li")).toHaveCount(10);
  await expect(page.getByText("It has not fired yet.")).toBeVisible();
  await page.getByRole("button", { name: "Trigger…" }).click();
  await page.getByText("As a command").click();
  await expect(page.getByText(/^perdure schedule trigger sched_/)).toBeVisible();
  await page.getByRole("button", { name: "Fire now" }).click();
  const fire = page.locator(".fires tbody tr");
  await expect(fire).toHaveCount(1);
  await expect(fire).toContainText("Done");
  await expect(fire).toContainText("triggered by");
  await accessible(page);
  await picture(page, "schedule-light");
  await fire.getByRole("link", { name: "open the session" }).click();
  await expect(page.getByText("Hello from the script.")).toBeVisible();
});

test("ST6: the list follows the stream: it reads nothing while nothing changes, and a change at once", async ({ page, server }) => {
  const session = await server.session("Reports");
  const { id } = await schedule(server, session, { title: "Morning report" });
  let reads = 0;
  page.on("request", (r) => new URL(r.url()).pathname === "/v1/schedules" && reads++);
  await page.clock.install();
  await enter(page, server, "schedules");
  const row = page.getByRole("link", { name: /Morning report/ });
  await expect(row).toContainText("On");
  await expect(connection(page)).toHaveAttribute("data-state", "live");
  await page.clock.pauseAt(Date.now() + 10_000);
  const before = reads;
  await page.clock.runFor(12_000);
  expect(reads).toBe(before);
  await server.api("POST", `/v1/schedules/${id}/pause`, { reason: "holidays" });
  await expect(async () => {
    await page.clock.runFor(10); // the cache tells the page in a timer
    await expect(row).toContainText("Paused", { timeout: 100 });
  }).toPass();
  expect(reads).toBe(before + 1);
});

test("U-12: what never fires, or fires too often, is refused with the server's reason; the last and next five are shown", async ({ page, server }) => {
  const session = await server.session("Never");
  await enter(page, server, `schedules/new?session=${session}`);
  await page.getByRole("combobox", { name: "Time zone" }).fill("UTC");
  await page.getByRole("textbox", { name: "Message" }).fill("hello");
  const create = page.getByRole("button", { name: "Create schedule" });
  for (const [cron, reason] of [
    ["0 0 31 2 *", "does not fire in the next 10 years"],
    ["* * * * *", "at least 5m0s must lie between two fires"],
    ["30 25 * * *", "is not between 0 and 23"],
  ] as const) {
    await page.getByRole("textbox", { name: "Expression" }).fill(cron);
    await expect(preview(page)).toContainText(reason);
    await expect(create).toBeDisabled();
  }
  await accessible(page);
  await picture(page, "schedule-refused-light");
  await page.getByRole("textbox", { name: "Expression" }).fill("@daily");
  await page.getByRole("combobox", { name: "Time zone" }).fill("Atlantis");
  await expect(preview(page)).toContainText('unknown time zone "Atlantis"');
  await expect(create).toBeDisabled();
  await page.getByRole("combobox", { name: "Time zone" }).fill("UTC");
  await expect(preview(page).getByRole("listitem")).toHaveCount(5);
  await expect(create).toBeEnabled();
  await create.click();
  await expect(page.locator(".next-fires li")).toHaveCount(10);
  await expect(page.getByText("Not yet fired").first()).toBeVisible();
  const refused = await server.api("POST", "/v1/schedules", { session_id: session, cron_expression: "0 0 31 2 *", action: { message: "x" } }).catch((err: Error) => err.message);
  expect(refused).toContain("422");
});

test("what the clocks of Europe/Berlin do to a fire is said in words, before and after it is created", async ({ page, server }) => {
  const session = await server.session("Clocks");
  const spring = lastSunday(3);
  const autumn = lastSunday(10);
  await enter(page, server, `schedules/new?session=${session}`);
  await page.getByRole("combobox", { name: "Time zone" }).fill("Europe/Berlin");
  await page.getByRole("textbox", { name: "Message" }).fill("hello");
  await page.getByRole("textbox", { name: "Expression" }).fill(`30 2 ${spring.day} 3 *`);
  const gap = `02:30 on ${spring.date} does not exist in Europe/Berlin: the clocks go from 02:00 to 03:00`;
  await expect(preview(page)).toContainText(gap);
  await expect(preview(page).getByRole("listitem").filter({ hasText: gap })).toContainText("03:00 GMT+2");
  await page.getByRole("textbox", { name: "Expression" }).fill(`30 2 ${autumn.day} 10 *`);
  await expect(preview(page)).toContainText(new RegExp(`02:30 on ${autumn.date} .*twice`));
  await page.getByRole("textbox", { name: "Expression" }).fill(`30 2 ${spring.day} 3 *`);
  await expect(preview(page)).toContainText(gap);
  await page.getByRole("button", { name: "Create schedule" }).click();
  await expect(page.locator(".next-fires")).toContainText(gap);
  await picture(page, "schedule-clocks-light");
});

test("pause with a reason, and resume", async ({ page, server }) => {
  const { id } = await schedule(server, await server.session("Pauses"), { title: "Nightly" });
  await enter(page, server, `schedules/${id}`);
  await page.getByRole("button", { name: "Pause…" }).click();
  await page.getByLabel(/^Reason/).fill("it's a holiday");
  await page.getByText("As a command").click();
  await expect(page.getByText(`perdure schedule pause ${id} --why 'it'\\''s a holiday'`)).toBeVisible();
  await accessible(page);
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await expect(page.getByTestId("schedule-state")).toHaveText("Paused");
  await expect(page.getByText(/It does not fire: paused by .*: it's a holiday/)).toBeVisible();
  await page.goto(`${server.url}/ui/schedules?state=paused`);
  await expect(page.getByRole("link", { name: /Nightly/ })).toContainText("it's a holiday");
  await page.getByRole("link", { name: "On", exact: true }).click();
  await expect(page.getByText("No schedule is in this state.")).toBeVisible();
  await page.goBack();
  await page.getByRole("link", { name: /Nightly/ }).click();
  await page.getByRole("button", { name: "Resume…" }).click();
  await page.getByRole("button", { name: "Resume", exact: true }).click();
  await expect(page.getByTestId("schedule-state")).toHaveText("On");
});

test("a backfill counts first, fires what was confirmed, and nothing twice", async ({ page, server }) => {
  const { id } = await schedule(server, await server.session("Backfill"), { title: "Hourly", cron_expression: "0 * * * *", timezone: "UTC" });
  await enter(page, server, `schedules/${id}`);
  await page.getByRole("button", { name: "Backfill…" }).click();
  await page.getByLabel(/^From/).fill("2026-11-01T00:30");
  await page.getByLabel(/^To/).fill("2026-11-01T03:30");
  await page.getByRole("button", { name: "Count the fires" }).click();
  await expect(page.getByText("It would fire 3 times.")).toBeVisible();
  await expect(page.getByText("Nothing has fired yet.")).toBeVisible();
  expect((await server.api<{ items: unknown[] }>("GET", `/v1/schedules/${id}/fires`)).items).toEqual([]);
  await accessible(page);
  await picture(page, "schedule-backfill-light");
  await page.getByRole("button", { name: "Fire 3 times" }).click();
  await expect(page.locator(".fires tbody tr")).toHaveCount(3);
  await page.getByRole("button", { name: "Backfill…" }).click();
  await page.getByLabel(/^From/).fill("2026-11-01T00:30");
  await page.getByLabel(/^To/).fill("2026-11-01T03:30");
  await page.getByRole("button", { name: "Count the fires" }).click();
  await expect(page.getByText("No time of this period is without a fire.")).toBeVisible();
  await page.getByLabel(/^To/).fill("2026-10-31T00:00");
  await page.getByRole("button", { name: "Count the fires" }).click();
  await expect(page.getByRole("alert")).toContainText("not before its start");
});

test("a schedule is deleted when its title is typed; then its address is a friendly page", async ({ page, server }) => {
  const { id } = await schedule(server, await server.session("Deletes"), { title: "Old one" });
  await enter(page, server, `schedules/${id}`);
  await page.getByRole("button", { name: "Delete…" }).click();
  const act = page.getByRole("button", { name: "Delete", exact: true });
  await expect(act).toBeDisabled();
  await page.getByLabel(/to confirm/).fill("Old one");
  await act.click();
  await expect(page.getByText("There are no schedules yet")).toBeVisible();
  await page.goto(`${server.url}/ui/schedules/${id}`);
  await expect(page.getByRole("heading", { name: "There is no such schedule" })).toBeVisible();
  await page.goto(`${server.url}/ui/schedules/x`);
  await expect(page.getByRole("heading", { name: "There is no such schedule" })).toBeVisible();
  await accessible(page);
});

test("a tool runs, fails, and its schedule says so; a token that may only read is offered nothing", async ({ page, server }) => {
  const session = await server.session("Tools");
  const { id } = await schedule(server, session, { title: "Breaks", action: { tool: "bash", args: { command: "exit 3" }, signal_on_completion: true } });
  await server.api("POST", `/v1/schedules/${id}/trigger`, {});
  await enter(page, server, `schedules/${id}`);
  const fire = page.locator(".fires tbody tr");
  await expect(fire).toContainText(/Failed|Done/);
  await fire.getByRole("link", { name: "open the task" }).click();
  await expect(page).toHaveURL(/tasks\/task_/);

  const { token } = await server.api<{ token: string }>("POST", "/v1/tokens", { name: "reader", scopes: ["read"] });
  await page.getByRole("button", { name: /Sign out/ }).click();
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.goto(`${server.url}/ui/schedules/${id}`);
  await expect(page.getByText('does not have the scope write')).toBeVisible();
  await expect(page.getByRole("button", { name: "Trigger…" })).toHaveCount(0);
});

test("by keyboard only: a schedule is created and paused", async ({ page, server }) => {
  await server.session("Keys");
  await enter(page, server, "schedules");
  const to = async (name: string | RegExp, role: "link" | "button" | "textbox" | "combobox") => {
    const el = page.getByRole(role, { name, exact: typeof name === "string" });
    await expect(el).toBeVisible();
    for (let i = 0; i < 60 && !(await el.evaluate((e) => e === document.activeElement)); i++) await page.keyboard.press("Tab");
    await expect(el).toBeFocused();
  };
  await to("New schedule", "link");
  await page.keyboard.press("Enter");
  await to(/^Session/, "combobox");
  await page.keyboard.press("K");
  await to("Expression", "textbox");
  await page.keyboard.type("@weekly");
  await to("Message", "textbox");
  await page.keyboard.type("hello");
  await expect(page.getByRole("button", { name: "Create schedule" })).toBeEnabled();
  await to("Create schedule", "button");
  await page.keyboard.press("Enter");
  await to("Pause…", "button");
  await page.keyboard.press("Enter");
  await page.keyboard.type("by keyboard");
  await page.keyboard.press("Enter");
  await expect(page.getByTestId("schedule-state")).toHaveText("Paused");
  await expect(page.getByText(/: by keyboard/)).toBeVisible();
});

for (const scheme of ["light", "dark"] as const) {
  for (const width of [380, 1440]) {
    test(`the pages of schedules at ${width} px, ${scheme}`, async ({ page, server }) => {
      await page.emulateMedia({ colorScheme: scheme });
      await page.setViewportSize({ width, height: 860 });
      const session = await server.session("The session of the reports of the whole week");
      await server.cli("budget", "set", "session", session, "--limit", "5", "--soft", "3", "--action", "pause");
      const { id } = await schedule(server, session, { title: "Morning report with a rather long title that must break somewhere", overlap: "queue" });
      await schedule(server, session, { title: "<b>bold</b> \u202eevil", cron_expression: "*/15 * * * *" });
      const paused = await schedule(server, session, { title: "On holiday", cron_expression: "@monthly" });
      await server.api("POST", `/v1/schedules/${paused.id}/pause`, { reason: "nobody reads it in August" });
      await server.api("POST", `/v1/schedules/${id}/backfill`, { from: "2026-10-20T00:00:00Z", to: "2026-10-28T00:00:00Z" });
      await server.api("POST", `/v1/schedules/${id}/trigger`, {});
      await enter(page, server);
      for (const [name, path, shown] of [
        ["schedules", "schedules", page.getByText("On holiday")],
        ["schedule", `schedules/${id}`, page.locator(".fires tbody tr").nth(6)],
        ["schedule-new", `schedules/new?session=${session}`, page.getByText("Enter an expression")],
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
