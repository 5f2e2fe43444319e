import { accessible, connection, enter, expect, fits, picture, test } from "./rig";
import { bulk, rows } from "./scale";

test("sessions appear without a reload, and lead to their transcript", async ({ page, server }) => {
  await enter(page, server);
  await expect(page.getByText("There are no sessions yet")).toBeVisible();
  await accessible(page);
  const id = await server.session("Invoices of March");
  const row = page.getByRole("link", { name: /Invoices of March/ });
  await expect(row).toBeVisible();
  await accessible(page);
  await row.click();
  await expect(page).toHaveURL(new RegExp(`/ui/sessions/${id}$`));
  await page.getByLabel("Message").fill("hello");
  await page.keyboard.press("Enter");
  await expect(page.getByText("Hello from the script.")).toBeVisible();
  await expect(page.getByText(/Turn completed/)).toBeVisible();
  await expect(page.getByLabel("Message")).toHaveValue("");
});

test("a new session is started from the page", async ({ page, server }) => {
  await enter(page, server);
  await page.getByRole("button", { name: "New session" }).click();
  await page.getByLabel(/Title/).fill("From the page");
  await accessible(page);
  await page.getByRole("button", { name: "Start" }).click();
  await expect(page.getByRole("heading", { name: "From the page" })).toBeVisible();
});

test("text streams, a reload in mid-stream keeps it, and each word comes once", async ({ page, server }) => {
  const id = await server.session("Stream");
  await enter(page, server, `sessions/${id}`);
  await page.getByLabel("Message").fill("stream");
  await page.keyboard.press("Enter");
  const answer = page.locator(".bubble.agent .untrusted");
  await expect(answer).toContainText("begin one two");
  await expect(page.locator('.bubble.agent[data-state="open"]')).toBeVisible();
  await page.reload();
  await expect(answer).toContainText("begin one two");
  await expect(page.getByText(/Turn completed/)).toBeVisible();
  await expect(answer).toHaveText(/^begin one two three .* nineteen twenty end$/);
});

test("kill -9 of the server in mid-stream: the page keeps what it shows, reconnects, and continues", async ({ page, server }) => {
  const id = await server.session("Crash");
  await enter(page, server, `sessions/${id}`);
  await page.getByLabel("Message").fill("stream");
  await page.keyboard.press("Enter");
  const answer = page.locator(".bubble.agent .untrusted").first();
  await expect(answer).toContainText("begin one two");
  await server.kill();
  await expect(connection(page)).toHaveAttribute("data-state", /reconnecting|offline/);
  await expect(answer).toContainText("begin one two");
  await picture(page, "session-server-away");
  await server.start();
  await expect(connection(page)).toHaveAttribute("data-state", "live");
  await expect(page.getByText(/Turn completed/)).toBeVisible({ timeout: 60_000 });
  await expect(page.locator(".bubble.agent .untrusted").last()).toHaveText(/twenty end$/);
  await expect(page.getByText(/Resumed after|A worker took over/).first()).toBeVisible();
});

test("a call is approved beside its exact arguments, and its card follows it", async ({ page, server }) => {
  const id = await server.session("Charge");
  await enter(page, server, `sessions/${id}`);
  await page.getByLabel("Message").fill("charge");
  await page.keyboard.press("Enter");
  const asks = page.getByTestId("approval");
  await expect(asks).toContainText('"a": 19');
  await expect(page.getByTestId("session-state")).toContainText("Needs you");
  await expect(page.getByTestId("badge")).toContainText("1 needs you");
  await accessible(page);
  await picture(page, "session-approval-light");
  await asks.getByRole("button", { name: "Approve once" }).click();
  await expect(asks).toHaveCount(0);
  await expect(page.locator(".card")).toHaveAttribute("data-state", "success");
  await expect(page.getByText(/The result is .*42/)).toBeVisible();
  await page.getByRole("button", { name: /add|Add/ }).click();
  await expect(page.getByLabel("Arguments")).toContainText('"b": 23');
  await accessible(page);
});

test("a denied call says why to the model", async ({ page, server }) => {
  const id = await server.session("Deny");
  await enter(page, server, `sessions/${id}`);
  await server.say(id, "charge");
  await page.getByRole("button", { name: "Deny…" }).click();
  await page.getByLabel("What the model reads instead of a result").fill("not on a Friday");
  await page.getByRole("button", { name: "Deny", exact: true }).click();
  await expect(page.locator(".card")).toHaveAttribute("data-state", "error");
  await expect(page.getByText(/The result is .*not on a Friday/)).toBeVisible();
});

test("work outlives its turn: its card, the dock, the task with its log, and its cancel", async ({ page, server }) => {
  const id = await server.session("Background");
  await enter(page, server, `sessions/${id}`);
  await page.getByLabel("Message").fill("background");
  await page.keyboard.press("Enter");
  const pill = page.getByRole("region", { name: /running work/ }).getByRole("link", { name: /Count/ });
  await expect(pill).toBeVisible();
  await expect(page.getByText(/Turn completed/)).toBeVisible();
  await pill.click();
  await expect(page.getByRole("heading", { name: "Count" })).toBeVisible();
  await expect(page.getByLabel("Output")).toContainText(/line \d+/);
  await accessible(page);
  await picture(page, "task-light");
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Tasks" }).click();
  await expect(page.getByRole("link", { name: /Count/ })).toBeVisible();
  await picture(page, "tasks-light");
  await accessible(page);
  await page.getByRole("link", { name: /Count/ }).click();
  await page.getByRole("button", { name: "Cancel task" }).click();
  await expect(page.getByTestId("task-state")).toContainText("Canceled");
});

test("hostile text is text", async ({ page, server }) => {
  const id = await server.session("<b>bold</b> \u202eevil");
  await enter(page, server, `sessions/${id}`);
  await server.say(id, "hostile");
  await expect(page.locator(".bubble.agent")).toContainText("<img src=x onerror=");
  await expect(page.locator(".bubble.agent")).toContainText("␛[31mred");
  await expect(page.locator(".bubble.agent img, .bubble.agent script, h1 b")).toHaveCount(0);
  expect(await page.title()).not.toContain("pwned");
});

test("an unknown address or id gets a friendly page", async ({ page, server }) => {
  await enter(page, server, "sessions/session_00000000000000000000000000000000");
  await expect(page.getByRole("heading", { name: "There is no such session" })).toBeVisible();
  await accessible(page);
  await page.goto(`${server.url}/ui/tasks/x`);
  await expect(page.getByRole("heading", { name: "There is no such task" })).toBeVisible();
  await page.goto(`${server.url}/ui/none/of/these`);
  await expect(page.getByRole("heading", { name: "There is no such page" })).toBeVisible();
});

test("by keyboard only: sign in, open a session, send", async ({ page, server }) => {
  const id = await server.session("Keys");
  await page.goto(server.url);
  await expect(page.getByLabel("Token")).toBeFocused();
  await page.keyboard.type(server.token);
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "Sessions" })).toBeVisible();
  const row = page.getByRole("link", { name: /Keys/ });
  await expect(row).toBeVisible();
  for (let i = 0; i < 30 && !(await row.evaluate((el) => el === document.activeElement)); i++) await page.keyboard.press("Tab");
  await expect(row).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(new RegExp(id));
  const box = page.getByLabel("Message");
  await expect(box).toBeVisible();
  for (let i = 0; i < 30 && !(await box.evaluate((el) => el === document.activeElement)); i++) await page.keyboard.press("Tab");
  await expect(box).toBeFocused();
  await page.keyboard.type("hello");
  await page.keyboard.press("Enter");
  await expect(page.getByText("Hello from the script.")).toBeVisible();
});

for (const scheme of ["light", "dark"] as const) {
  for (const width of [380, 1440]) {
    test(`every page at ${width} px, ${scheme}`, async ({ page, server }) => {
      await page.emulateMedia({ colorScheme: scheme });
      await page.setViewportSize({ width, height: 800 });
      const id = await server.session("A session with a rather long title that has to break somewhere");
      await server.say(id, "charge");
      await server.say(await server.session("Background"), "background");
      await enter(page, server);
      for (const [name, path, shown] of [
        ["sessions", "sessions", page.getByText(/Needs you/).first()],
        ["session", `sessions/${id}`, page.getByTestId("approval")],
        ["tasks", "tasks?tab=working", page.getByRole("link", { name: /Count/ })],
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

test("titles are searched on the server, on the page and in the palette; the words stay over reload and back", async ({ page, server }) => {
  const old = await server.session("Invoices of MÄRZ");
  await server.session("100 % of it");
  await bulk(205, 24, (i) => server.session(`Filler ${i}`)); // more than the stream sends
  await enter(page, server);
  const rows = page.getByRole("region", { name: "List of sessions" }).getByRole("link");
  await expect(rows.first()).toHaveText(/Filler/);
  await page.getByLabel("Search titles").fill("märz inv");
  await expect(rows).toHaveText([/Invoices of MÄRZ/]);
  await expect(page).toHaveURL(/q=m/);
  await accessible(page);
  await picture(page, "sessions-search");
  await page.reload();
  await expect(page.getByLabel("Search titles")).toHaveValue("märz inv");
  await expect(rows).toHaveText([/Invoices of MÄRZ/]);
  await page.getByLabel("Search titles").fill("%");
  await expect(rows).toHaveText([/100 % of it/]);
  await page.getByLabel("Search titles").fill("nothing of this");
  await expect(page.getByText("No session has all of these words in its title.")).toBeVisible();
  await page.getByRole("link", { name: "Show all sessions" }).click();
  await expect(page.getByLabel("Search titles")).toHaveValue("");
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Search, or run a command" }).fill("invoices märz");
  await expect(page.getByRole("option", { name: /Invoices of MÄRZ/ })).toBeVisible();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(new RegExp(`/ui/sessions/${old}$`));
});

test("each of many sessions is reached by scrolling, and a row that the stream does not have stays current", async ({ page, server }) => {
  test.setTimeout(240_000);
  const many = 330; // the stream has the newest 200
  const ids: string[] = [];
  await bulk(many, 8, async (i) => void (ids[i] = await server.session(`Number ${i}`)));
  await enter(page, server);
  const list = page.getByRole("region", { name: "List of sessions" });
  const titles = list.locator(".title");
  await expect(titles.first()).toBeVisible();
  const seen = new Set<string>();
  await expect
    .poll(
      async () => {
        for (const text of await titles.allInnerTexts()) seen.add(/Number \d+/.exec(text)![0]);
        await list.evaluate((el) => (el.scrollTop += el.clientHeight));
        expect(await rows(page)).toBeLessThanOrEqual(300);
        return seen.size;
      },
      { timeout: 120_000, intervals: [60] },
    )
    .toBe(many);
  const old = /Number (\d+)/.exec(await titles.last().innerText())![1]!;
  await server.api("PATCH", `/v1/sessions/${ids[Number(old)]}`, { title: "A new title" });
  await expect(list.getByText("A new title")).toBeVisible();
});
