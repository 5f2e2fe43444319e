import { existsSync } from "node:fs";
import type { Page } from "@playwright/test";
import { link, Program } from "./program";
import { accessible, connection, expect, picture, test } from "./rig";

// watchConnection notes each state that the pill of the page has from now on.
async function watchConnection(page: Page) {
  await connection(page).evaluate((pill) => {
    const seen: string[] = [];
    Object.assign(window, { seen });
    new MutationObserver(() => seen.push(pill.getAttribute("data-state") ?? "")).observe(pill, { attributes: true });
  });
  return () => page.evaluate(() => (window as unknown as { seen: string[] }).seen);
}

test("F2 demo crash --ui: the page survives each kill, and shows the end", async ({ page }) => {
  test.setTimeout(180_000);
  const demo = new Program("demo", "crash", "--ui", "--no-open", "--kills", "2", "--wait", "90s");
  try {
    const [address] = await demo.says(link);
    await page.goto(address);
    await expect(page.getByRole("link", { name: /order 1\b/ })).toBeVisible();
    const states = await watchConnection(page);
    await demo.says(/killed \d+ \(1 of 2\)/);
    await demo.says(/killed \d+ \(2 of 2\)[^]*restarted/);
    await expect(connection(page)).toHaveAttribute("data-state", "live");
    expect(await states()).toContain("reconnecting");
    await demo.says(/2 kills · [^]*repeated 0 · lost 0 · missing 0 [^]*\nok\n/);
    await demo.says(/the pages stay for/);
    await expect(connection(page)).toHaveAttribute("data-state", "live");
    await page.getByRole("link", { name: /order 1\b/ }).click();
    await expect(page.getByText(/order 1 is (done|charged)/).first()).toBeVisible();
    await accessible(page);
    await picture(page, "demo-crash");
    expect(await demo.interrupt()).toBe(0);
    expect(existsSync(demo.path(".perdure-demo"))).toBe(false);
  } finally {
    await demo.end();
  }
});

test("F3 demo approvals --ui: both payments are decided in the browser", async ({ page }) => {
  const demo = new Program("demo", "approvals", "--ui", "--no-open", "--wait", "60s");
  try {
    const [address] = await demo.says(link);
    await page.goto(address);
    await page.getByRole("link", { name: /demo approvals/ }).click();
    const asks = page.getByTestId("approval");
    await expect(asks.filter({ hasText: "996" })).toBeVisible();
    await picture(page, "demo-approvals");
    await asks.filter({ hasText: "996" }).getByRole("button", { name: "Approve once…" }).click(); // a payment cannot be undone
    await page.getByLabel(/type the name of the tool/).fill("pay");
    await page.getByRole("button", { name: "Approve once", exact: true }).click();
    await demo.says(/invoice 9 is paid once, exactly 996/);
    await asks.filter({ hasText: "672" }).getByRole("button", { name: "Deny…" }).click();
    await page.getByRole("button", { name: "Deny", exact: true }).click();
    await demo.says(/denied by .*: invoice 18 is not paid/);
    await demo.says(/asked 2 times · approved 1 · denied 1\n.*\nok\n/);
    await demo.says(/the pages stay for/);
    await expect(connection(page)).toHaveAttribute("data-state", "live");
    await expect(page.getByText("All that I was allowed to pay is paid.")).toBeVisible();
    expect(await demo.interrupt()).toBe(0);
  } finally {
    await demo.end();
  }
});
