import AxeBuilder from "@axe-core/playwright";
import { test as base, expect, type Page } from "@playwright/test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Server } from "./server";

export { expect };

// test has a server of its own, whose pages may not report an error.
export const test = base.extend<{ server: Server; faults: string[] }>({
  // eslint-disable-next-line no-empty-pattern
  server: async ({}, use) => {
    const server = await Server.start();
    await use(server);
    await server.stop();
  },
  faults: [
    async ({ page }, use) => {
      const faults: string[] = [];
      page.on("pageerror", (err) => faults.push(String(err)));
      page.on("console", (m) => {
        if (m.type() === "error" && /Content Security Policy|Minified React|Uncaught/.test(m.text())) faults.push(m.text());
      });
      await use(faults);
      expect(faults, "errors on the page").toEqual([]);
    },
    { auto: true },
  ],
});

// enter signs the browser in with a one-time link, and goes to a page.
export async function enter(page: Page, server: Server, path = "sessions") {
  await page.goto(await server.cli("ui", "--no-open"));
  await expect(page.getByRole("heading", { name: "Sessions" })).toBeVisible();
  if (path !== "sessions") await page.goto(`${server.url}/ui/${path}`);
}

export const connection = (page: Page) => page.getByTestId("connection");

// accessible checks a page with axe: nothing serious or worse.
export async function accessible(page: Page) {
  const { violations } = await new AxeBuilder({ page }).analyze();
  const grave = violations.filter((v) => v.impact === "serious" || v.impact === "critical");
  expect(
    grave.map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 160)).join(" | ")}`),
    "axe",
  ).toEqual([]);
}

// fits checks that nothing sticks out at the side.
export async function fits(page: Page) {
  const [have, width] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  expect(have).toBeLessThanOrEqual(width!);
}

const pictures = process.env.PERDURE_UI_PICTURES;

// picture keeps a picture of the page.
export async function picture(page: Page, name: string) {
  if (!pictures) return;
  mkdirSync(pictures, { recursive: true });
  await page.screenshot({ path: join(pictures, `${name}.png`) });
}
