import { accessible, connection, enter, expect, fits, picture, test } from "./rig";

test("U-4: the badge is right on every page and in ps --prompt, soon after a change", async ({ page, server }) => {
  await enter(page, server);
  const badge = page.getByTestId("badge");
  await expect(badge).toContainText("0 running");
  const counts = (text: string) => Object.fromEntries([...text.matchAll(/([1-9]\d*)\s+(running|need|unknown|failed)/g)].map((m) => [m[2], m[1]]));

  const id = await server.session("Charge");
  await server.say(id, "charge");
  const began = Date.now();
  await expect(badge).toContainText("1 needs you");
  console.log(`the badge followed after ${Date.now() - began} ms`);
  await server.say(await server.session("Background"), "background");
  await expect(badge).toContainText("2 running"); // the session that waits for an approval, and the task
  for (const path of ["sessions", `sessions/${id}`, "tasks", "none/such"]) {
    await page.goto(`${server.url}/ui/${path}`);
    await expect(badge).toContainText("1 needs you");
    await expect(badge).toContainText("2 running");
    expect(counts(await badge.innerText())).toEqual(counts(await server.cli("ps", "--prompt")));
  }
});

test("p pauses the page: it keeps still, and catches up without a loss", async ({ page, server }) => {
  const id = await server.session("Still");
  await enter(page, server, `sessions/${id}`);
  await expect(connection(page)).toHaveAttribute("data-state", "live");
  await page.locator("main").focus();
  await page.keyboard.press("p");
  await expect(connection(page)).toHaveAttribute("data-state", "paused");
  await expect(connection(page)).toContainText("Paused");
  await accessible(page);
  for (const text of ["hello one", "hello two", "hello three"]) {
    await server.say(id, text);
    await server.api("GET", `/v1/sessions/${id}?wait=30s`);
  }
  await expect(page.getByText("Nothing was said yet")).toBeVisible();
  await page.getByRole("link", { name: "Tasks" }).click();
  await page.goBack();
  await page.keyboard.press("p");
  await expect(connection(page)).toHaveAttribute("data-state", "live");
  await expect(page.locator(".bubble.agent")).toHaveCount(3);
  for (const text of ["hello one", "hello two", "hello three"]) await expect(page.getByText(text, { exact: true })).toHaveCount(1);
});

test("pausing in the middle of a text, and resuming, gives the whole text once", async ({ page, server }) => {
  const id = await server.session("Middle");
  await enter(page, server, `sessions/${id}`);
  await server.say(id, "stream");
  const answer = page.locator(".bubble.agent .untrusted");
  await expect(answer).toContainText("begin one two");
  await connection(page).click();
  await expect(connection(page)).toHaveAttribute("data-state", "paused");
  const then = await answer.innerText();
  await server.api("GET", `/v1/sessions/${id}?wait=60s`);
  expect(await answer.innerText()).toBe(then);
  await connection(page).click();
  await expect(page.getByText(/Turn completed/)).toBeVisible();
  await expect(answer).toHaveText(/^begin one two three .* nineteen twenty end$/);
});

test("keys: a list, pages, search, and none while somebody types or once they are off", async ({ page, server }) => {
  const id = await server.session("Keys");
  await enter(page, server);
  await page.keyboard.press("g");
  await page.keyboard.press("t");
  await expect(page).toHaveURL(/\/tasks/);
  await page.keyboard.press("?");
  const list = page.getByRole("dialog");
  await expect(list).toContainText("Pause or resume live updates");
  await accessible(page);
  await picture(page, "keys");
  await page.keyboard.press("p");
  await expect(connection(page)).toHaveAttribute("data-state", "live");
  await page.keyboard.press("Escape");
  await expect(list).toHaveCount(0);
  await page.keyboard.press("/");
  await expect(page.getByRole("combobox")).toBeFocused();
  await page.keyboard.press("Escape");

  await page.goto(`${server.url}/ui/sessions/${id}`);
  await page.getByLabel("Message").click();
  await page.keyboard.type("p/?g t");
  await expect(page.getByLabel("Message")).toHaveValue("p/?g t");
  await expect(connection(page)).toHaveAttribute("data-state", "live");

  await page.getByRole("button", { name: "Keys" }).click();
  await page.getByLabel("Shortcuts of a single key").uncheck();
  await page.getByRole("button", { name: "Close" }).click();
  await page.reload();
  await expect(connection(page)).toHaveAttribute("data-state", "live");
  await page.locator("main").focus();
  await page.keyboard.press("p");
  await page.keyboard.press("?");
  await page.keyboard.press("/");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await expect(connection(page)).toHaveAttribute("data-state", "live");
  await page.keyboard.press("Control+k");
  await expect(page.getByRole("combobox")).toBeFocused();
});

test("the rail: narrow and wide, kept; a bar at the bottom of a narrow screen, with the rest behind More", async ({ page, server }) => {
  await enter(page, server);
  const rail = page.getByRole("navigation", { name: "Pages" });
  const width = async () => (await rail.boundingBox())!.width;
  expect(await width()).toBe(220);
  await page.getByRole("button", { name: "Narrow the rail" }).click();
  expect(await width()).toBe(56);
  await accessible(page);
  await picture(page, "rail-narrow");
  await page.reload();
  await expect(rail).toBeVisible();
  expect(await width()).toBe(56);
  await page.setViewportSize({ width: 380, height: 800 });
  expect((await rail.boundingBox())!.y).toBeGreaterThan(700);
  await fits(page);
  await page.getByRole("button", { name: "More" }).click();
  const sheet = page.getByRole("dialog");
  await expect(sheet.getByRole("button", { name: /Sign out/ })).toBeVisible();
  await accessible(page);
  await picture(page, "more-380");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("button", { name: "More" })).toBeFocused();
  for (const target of await rail.locator("a:visible, button:visible").all()) {
    const box = (await target.boundingBox())!;
    expect(box.height).toBeGreaterThanOrEqual(44);
  }
});

test("the path at the top says where the page is, the focus follows, and the first Tab skips to the content", async ({ page, server }) => {
  const id = await server.session("Invoices of March");
  await enter(page, server);
  await page.getByRole("link", { name: /Invoices of March/ }).click();
  const crumbs = page.getByRole("navigation", { name: "Where you are" });
  await expect(crumbs).toHaveText(/Sessions\s*Invoices of March/);
  await expect(page.locator("main")).toBeFocused();
  await crumbs.getByRole("link", { name: "Sessions" }).click();
  await expect(page).toHaveURL(/\/sessions$/);
  await page.goto(`${server.url}/ui/sessions/${id}`);
  await expect(page.getByRole("heading", { name: "Invoices of March" })).toBeVisible();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: "Skip to the content" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.locator("main")).toBeFocused();
});

test("U-9: reload, back, forward and a slow network keep filter, tab and scroll", async ({ page, server }) => {
  for (let i = 0; i < 60; i++) await server.session(`Session number ${i}`);
  await enter(page, server);
  await page.getByRole("link", { name: "Idle", exact: true }).click();
  await page.goBack();
  await page.goForward();
  await expect(page).toHaveURL(/state=idle/);
  await page.goBack();
  const list = page.getByRole("region", { name: "List of sessions" });
  await expect(page.getByRole("link", { name: /Session number 59/ })).toBeVisible();
  await list.evaluate((el) => (el.scrollTop = 1200));
  const row = page.getByRole("link", { name: /Session number 35/ });
  await row.click();
  await expect(page.getByRole("heading", { name: "Session number 35" })).toBeVisible();
  await page.goBack();
  await expect.poll(() => list.evaluate((el) => el.scrollTop)).toBe(1200);
  await page.route("**/v1/sessions?**", async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 700)); // a slow network
    await route.continue();
  });
  await page.reload();
  await expect.poll(() => list.evaluate((el) => el.scrollTop)).toBe(1200);
  await page.goto(`${server.url}/ui/tasks?tab=done`);
  await page.reload();
  await expect(page.getByRole("link", { name: /Done/ })).toHaveAttribute("aria-current", "page");
});

test("U-11: an address that leads nowhere is said, with a search", async ({ page, server }) => {
  await server.session("Found again");
  await enter(page, server);
  for (const path of ["sessions/session_none", "tasks/task_none", "none/of/these", "sessions/%E2%80%AE%00", "sessions/" + "x".repeat(500)]) {
    await page.goto(`${server.url}/ui/${path}`);
    await expect(page.getByRole("heading", { name: /There is no such/ })).toBeVisible();
  }
  await accessible(page);
  await page.getByRole("button", { name: "Search for something else" }).click();
  await page.getByRole("combobox").fill("found again");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "Found again" })).toBeVisible();
});

test("reduced motion, forced colours and print", async ({ page, server }) => {
  const id = await server.session("Print me");
  await server.say(id, "hello");
  await enter(page, server, `sessions/${id}`);
  await expect(page.getByText("Hello from the script.")).toBeVisible();
  await page.emulateMedia({ reducedMotion: "reduce", forcedColors: "active" });
  await accessible(page);
  await picture(page, "forced-colours");
  const current = page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Sessions" });
  expect(await current.evaluate((el) => getComputedStyle(el).outlineStyle)).toBe("solid");
  await page.emulateMedia({ media: "print", forcedColors: "none" });
  await expect(page.getByRole("navigation", { name: "Pages" })).toBeHidden();
  await expect(page.getByText("Hello from the script.")).toBeVisible();
  await picture(page, "print");
});

for (const scheme of ["light", "dark"] as const) {
  test(`the shell at 400 % zoom and at several widths, ${scheme}`, async ({ page, server }) => {
    await page.emulateMedia({ colorScheme: scheme });
    const id = await server.session("A session with a rather long title that has to break somewhere");
    await server.say(id, "charge");
    await enter(page, server);
    for (const width of [320, 380, 768, 1024, 1440]) {
      await page.setViewportSize({ width, height: 700 });
      await page.goto(`${server.url}/ui/sessions/${id}`);
      await expect(page.getByTestId("approval")).toBeVisible();
      await expect(page.getByTestId("badge")).toContainText("1 needs you");
      await fits(page);
      await accessible(page);
      await picture(page, `shell-${scheme}-${width}`);
    }
  });
}
