import { accessible, connection, enter, expect, picture, test } from "./rig";

test("the root leads to the UI, and a one-time link signs one browser in", async ({ page, server, browser }) => {
  await page.goto(server.url);
  await expect(page.getByRole("heading", { name: "Sign in to Perdure" })).toBeVisible();
  await accessible(page);
  await picture(page, "sign-in");

  const link = await server.cli("ui", "--no-open");
  await page.goto(link);
  await expect(page.getByRole("heading", { name: "Sessions" })).toBeVisible();
  await expect(connection(page)).toHaveAttribute("data-state", "live");
  expect(page.url()).not.toContain("link=");

  const other = await browser.newPage();
  await other.goto(link);
  await expect(other.getByRole("alert")).toContainText("was used before");
  await other.close();
});

test("a deep link leads to its page after the sign-in, and signing out ends it", async ({ page, server }) => {
  const id = await server.session("Invoices");
  await page.goto(`${server.url}/ui/sessions/${id}`);
  await page.getByLabel("Token").fill("perdure_wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("alert")).toContainText("unknown to this server");
  await page.getByLabel("Token").fill(server.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("heading", { name: "Invoices" })).toBeVisible();
  expect(await page.evaluate(() => document.cookie)).toBe("");

  await page.getByRole("button", { name: /Sign out/ }).click();
  await expect(page.getByRole("heading", { name: "Sign in to Perdure" })).toBeVisible();
});

test("a token that is revoked ends the page's sign-in", async ({ page, server }) => {
  await enter(page, server);
  await expect(connection(page)).toHaveAttribute("data-state", "live");
  await server.cli("token", "revoke", "web UI", "--yes");
  await expect(page.getByRole("heading", { name: "Sign in to Perdure" })).toBeVisible();
});

test("what the principal may not do is not offered, and says why", async ({ page, server }) => {
  const id = await server.session("Read only");
  const { token } = await server.api<{ token: string }>("POST", "/v1/tokens", { name: "looker", scopes: ["read"] });
  await page.goto(`${server.url}/ui/sessions/${id}`);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByText('Your token "looker" does not have the scope write.')).toBeVisible();
  await expect(page.getByRole("button", { name: "Pause" })).toHaveCount(0);
});
