import { accessible, enter, expect, fits, picture, test } from "./rig";

test("Ctrl-K finds sessions, tasks, approvals, pages and commands, by keyboard", async ({ page, server }) => {
  const id = await server.session("Invoices of March");
  await server.say(id, "charge");
  await server.say(await server.session("Background"), "background");
  await enter(page, server);
  await expect(page.getByTestId("badge")).toContainText("1 needs you");
  const box = page.getByRole("combobox");
  await page.keyboard.press("Control+k");
  await expect(box).toBeFocused();
  await expect(page.getByRole("option", { name: /Approve add/ })).toBeVisible();
  await accessible(page);
  await picture(page, "palette");
  for (const [text, found] of [
    ["invoices", /Invoices of March/],
    [id, /Invoices of March/],
    ["count", /Count/],
    ["timeline tasks".slice(9), /^Tasks/],
    ["cancel task", /task cancel/],
    ["approve add", /Approve add/],
  ] as const) {
    await box.fill(text);
    await expect(page.getByRole("option", { name: found }).first()).toBeVisible();
  }
  await box.fill("no such thing anywhere");
  await expect(page.getByText("Nothing has these words")).toBeVisible();
  await box.fill("invoices");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "Invoices of March" })).toBeVisible();
  await expect(page.getByRole("dialog")).toHaveCount(0);
});

test("a verb runs as its request, shows its lines, and what the server answered", async ({ page, server }) => {
  const id = await server.session("Old name");
  await enter(page, server);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").fill("session rename");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByLabel(/^session/).fill(id);
  await page.getByRole("dialog").getByLabel(/^title/).fill("It's new");
  await expect(page.getByText(`perdure session rename ${id} 'It'\\''s new'`)).toBeVisible();
  await expect(page.getByText(/curl -H .* -X PATCH/)).toBeVisible();
  await accessible(page);
  await picture(page, "verb");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await expect(page.getByLabel("Answer of the server")).toContainText('"title": "It\'s new"');
  await page.keyboard.press("Escape");
  await expect(page.getByRole("link", { name: /It's new/ })).toBeVisible();
});

test("the lines of a verb do the same on a terminal", async ({ page, server }) => {
  const id = await server.session("By line");
  await enter(page, server);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").fill("session show");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByLabel(/^session/).fill(id);
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await expect(page.getByLabel("Answer of the server")).toContainText("By line");
  await page.getByText("As a command").click();
  const lines = await page.locator(".action-lines code").allInnerTexts();
  const { execFileSync } = await import("node:child_process");
  for (const line of lines) {
    const said = execFileSync("bash", ["-c", line.replace(/^perdure /, `"$PERDURE_UI_BINARY" `)], { encoding: "utf8", env: { ...process.env, HOME: server.home, PERDURE_DATA: `${server.home}/data`, PERDURE_TOKEN: server.token } });
    expect(said).toContain("By line");
  }
});

test("what cannot be undone is typed, a refusal stays in the dialog, and a verb for a terminal says why", async ({ page, server }) => {
  const id = await server.session("Delete me");
  await enter(page, server);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").fill("session delete");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByLabel(/^session/).fill(id);
  const act = page.getByRole("button", { name: "Delete", exact: true });
  await expect(act).toBeDisabled();
  await page.getByLabel(/This cannot be undone/).fill(id);
  await act.click();
  await expect(page.getByLabel("Answer of the server")).toBeVisible();
  await act.click();
  await expect(page.getByRole("alert")).toContainText(/not found/i);
  await page.getByRole("button", { name: "Back to the search" }).click();
  await page.getByRole("combobox").fill("admin backup");
  await page.keyboard.press("Enter");
  await expect(page.getByText("perdure admin backup TO")).toBeVisible();
});

test("who may only read is not offered to write, and reads why", async ({ page, server }) => {
  const { token } = await server.api<{ token: string }>("POST", "/v1/tokens", { name: "looker", scopes: ["read"] });
  await page.goto(`${server.url}/ui/sessions`);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Search, or run a command" }).click();
  await page.getByRole("combobox").fill("task cancel");
  await page.keyboard.press("Enter");
  await expect(page.getByText('Your token "looker" does not have the scope write.')).toBeVisible();
  await expect(page.getByRole("button", { name: "Run", exact: true })).toHaveCount(0);
});

for (const scheme of ["light", "dark"] as const) {
  for (const width of [380, 1440]) {
    test(`the search and a verb at ${width} px, ${scheme}`, async ({ page, server }) => {
      await page.emulateMedia({ colorScheme: scheme });
      await page.setViewportSize({ width, height: 800 });
      await server.session("A session with a rather long title that has to break somewhere, and <b>html</b>");
      await enter(page, server);
      await page.getByRole("button", { name: "Search, or run a command" }).click();
      await page.getByRole("combobox").fill("session");
      await expect(page.getByRole("option", { name: /rather long/ })).toBeVisible();
      await fits(page);
      await accessible(page);
      await picture(page, `palette-${scheme}-${width}`);
      await page.getByRole("combobox").fill("task resolve");
      await page.keyboard.press("Enter");
      await expect(page.getByRole("button", { name: "Run", exact: true })).toBeVisible();
      await fits(page);
      await accessible(page);
      await picture(page, `verb-${scheme}-${width}`);
    });
  }
}
