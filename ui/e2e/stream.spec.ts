import type { Page } from "@playwright/test";
import { connection, enter, expect, test } from "./rig";
import { proxied } from "./proxy";
import type { Server } from "./server";

async function signIn(page: Page, server: Server, url: string) {
  await page.goto(url);
  await page.getByLabel("Token").fill(server.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("button", { name: /Sign out/ })).toBeVisible();
}

test("U-10: eight tabs on HTTP/1.1, below a path of a buffering proxy, share one stream, and none starves", async ({ page, server, context }) => {
  const id = await server.session("Shared");
  const proxy = await proxied(server.port, "/below/here");
  const address = `${proxy.url}/ui/sessions/${id}`;
  await signIn(page, server, address);
  const tabs = [page];
  for (let i = 1; i < 8; i++) {
    const tab = await context.newPage();
    await tab.goto(address);
    tabs.push(tab);
  }
  for (const tab of tabs) {
    await expect(tab.getByRole("heading", { name: "Shared" })).toBeVisible();
    await expect(connection(tab)).toHaveAttribute("data-state", "live");
  }
  await tabs.at(-1)!.getByLabel("Message").fill("hello");
  await tabs.at(-1)!.keyboard.press("Enter");
  for (const tab of tabs) await expect(tab.getByText("Hello from the script.")).toHaveCount(1);
  await expect.poll(() => proxy.streams().length).toBe(1);
  for (const path of ["sessions", "tasks", `sessions/${id}`]) {
    await tabs[3]!.goto(`${proxy.url}/ui/${path}`);
    await expect(connection(tabs[3]!)).toHaveAttribute("data-state", "live");
  }
  expect(proxy.streams().length).toBeLessThanOrEqual(1);
  proxy.close();
});

test("text streams through a buffering proxy as the model writes it", async ({ page, server }) => {
  const id = await server.session("Buffered");
  const proxy = await proxied(server.port);
  await signIn(page, server, `${proxy.url}/ui/sessions/${id}`);
  await page.getByLabel("Message").fill("stream");
  await page.keyboard.press("Enter");
  await expect(page.locator(".bubble.agent .untrusted")).toContainText("begin one two");
  await expect(page.locator('.bubble.agent[data-state="open"]')).toBeVisible();
  await expect(page.getByText(/Turn completed/)).toBeVisible();
  proxy.close();
});

test("signing out in one tab is seen in all, and signing in as well", async ({ page, server, context }) => {
  const id = await server.session("All tabs");
  await page.goto(`${server.url}/ui/sessions`);
  await page.getByLabel("Token").fill(server.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  const other = await context.newPage();
  await other.goto(`${server.url}/ui/sessions/${id}`);
  await expect(other.getByRole("heading", { name: "All tabs" })).toBeVisible();
  await page.getByRole("button", { name: /Sign out/ }).click();
  for (const tab of [page, other]) await expect(tab.getByRole("heading", { name: "Sign in to Perdure" })).toBeVisible();
  await page.getByLabel("Token").fill(server.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(other.getByRole("heading", { name: "All tabs" })).toBeVisible();
  for (const tab of [page, other]) await expect(connection(tab)).toHaveAttribute("data-state", "live");
});

test("a tab that crashes leaves the stream, and the others keep it", async ({ page, server, context }) => {
  const id = await server.session("Crashed tab");
  const proxy = await proxied(server.port);
  await signIn(page, server, `${proxy.url}/ui/sessions`);
  const other = await context.newPage();
  await other.goto(`${proxy.url}/ui/sessions/${id}`);
  await expect.poll(() => proxy.streams().filter((s) => s.includes(id)).length).toBe(1);
  const devtools = await context.newCDPSession(other);
  void devtools.send("Page.crash").catch(() => undefined);
  await expect.poll(() => proxy.streams().filter((s) => s.includes(id)).length).toBe(0);
  await server.session("After the crash");
  await expect(page.getByRole("link", { name: /After the crash/ })).toBeVisible();
  proxy.close();
});

test("a worker that is killed is replaced by a stream of the page, and nothing is lost", async ({ page, server, browser }) => {
  const id = await server.session("Killed worker");
  await enter(page, server, `sessions/${id}`);
  await server.say(id, "stream");
  await expect(page.locator(".bubble.agent .untrusted")).toContainText("begin one two");
  const devtools = await browser.newBrowserCDPSession();
  const { targetInfos } = (await devtools.send("Target.getTargets")) as { targetInfos: { type: string; targetId: string; url: string }[] };
  const worker = targetInfos.find((t) => t.type === "shared_worker" && t.url.startsWith(server.url));
  expect(worker).toBeDefined();
  await devtools.send("Target.closeTarget", { targetId: worker!.targetId });
  await expect(page.getByText(/Turn completed/)).toBeVisible({ timeout: 60_000 });
  await expect(page.locator(".bubble.agent .untrusted")).toHaveText(/^begin one two three .* nineteen twenty end$/);
});

test("without workers, each page has a stream of its own", async ({ page, server }) => {
  await page.addInitScript("delete window.SharedWorker");
  const id = await server.session("Alone");
  await enter(page, server, `sessions/${id}`);
  await page.getByLabel("Message").fill("hello");
  await page.keyboard.press("Enter");
  await expect(page.getByText("Hello from the script.")).toBeVisible();
  await expect(connection(page)).toHaveAttribute("data-state", "live");
});

test("a session that is deleted while a page shows it does not keep the stream from others", async ({ page, server, context }) => {
  const id = await server.session("Soon gone");
  await enter(page, server);
  const other = await context.newPage();
  await other.goto(`${server.url}/ui/sessions/${id}`);
  await expect(other.getByRole("heading", { name: "Soon gone" })).toBeVisible();
  await server.api("DELETE", `/v1/sessions/${id}`).catch(() => undefined); // the answer has no body
  await expect(other.getByRole("heading", { name: "There is no such session" })).toBeVisible();
  await server.session("Still listed");
  await expect(page.getByRole("link", { name: /Still listed/ })).toBeVisible();
  for (const tab of [page, other]) await expect(connection(tab)).toHaveAttribute("data-state", "live");
});
