import type { Locator, Page } from "@playwright/test";
import { accessible, enter, expect, fits, picture, test as base } from "./rig";
import { bulk } from "./scale";
import { Server } from "./server";

const test = base.extend<{ server: Server }>({
  // eslint-disable-next-line no-empty-pattern
  server: async ({}, use) => {
    const server = await Server.start("scroll.yaml");
    await use(server);
    await server.stop();
  },
});

// place names the first row that is in view.
const place = (box: Locator) =>
  box.evaluate((el) => {
    const top = el.getBoundingClientRect().top;
    const row = [...el.querySelectorAll("li")].filter((li) => li.getBoundingClientRect().bottom > top + 1).sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)[0];
    return row ? (row.dataset.index ?? row.querySelector("a")?.getAttribute("href") ?? "") : "";
  });

// keeps scrolls to the middle of a box, and expects to find the same place after a reload and after back.
async function keeps(page: Page, box: Locator) {
  await expect.poll(() => box.evaluate((el) => el.scrollHeight - el.clientHeight)).toBeGreaterThan(400);
  await box.hover();
  await expect
    .poll(async () => {
      await page.mouse.wheel(0, await box.evaluate((el) => (el.scrollTop > el.scrollHeight / 2 ? -200 : 200)));
      return box.evaluate((el) => Math.min(el.scrollTop, el.scrollHeight - el.clientHeight - el.scrollTop));
    })
    .toBeGreaterThan(150);
  let there = "";
  await expect
    .poll(async () => {
      const before = there;
      there = await place(box);
      return there !== "" && there === before;
    })
    .toBe(true);
  await page.reload();
  await expect.poll(() => place(box)).toBe(there);
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Settings" }).click();
  await expect(page.getByRole("heading", { name: "Settings" }).first()).toBeVisible();
  await page.goBack();
  await expect.poll(() => place(box)).toBe(there);
}

test("U-9: tasks, approvals, the transcript and the events are where the reader left them, after a reload and after back", async ({ page, server }) => {
  await page.setViewportSize({ width: 1000, height: 500 });
  const id = await server.session("Long");
  for (let i = 0; i < 24; i++) {
    await server.say(id, `quick ${i}`);
    await server.api("GET", `/v1/sessions/${id}?wait=30s`); // one turn each
  }
  await bulk(24, 6, async (i) => server.say(await server.session(`Charge ${i}`), "charge"));
  await expect.poll(async () => (await server.api<{ items: unknown[] }>("GET", "/v1/tasks?state=succeeded&limit=200")).items.length).toBe(24);
  type Open = { items: { id: string; args_digest: string }[] };
  const open = () => server.api<Open>("GET", "/v1/approvals?state=open&limit=200");
  await expect.poll(async () => (await open()).items.length).toBe(24);
  for (const a of (await open()).items) await server.api("POST", `/v1/approvals/${a.id}/deny`, { args_digest: a.args_digest });
  await server.api("GET", `/v1/sessions/${id}?wait=60s`);

  await enter(page, server, "tasks?tab=done");
  await keeps(page, page.getByRole("region", { name: "List of tasks" }));
  await page.goto(`${server.url}/ui/approvals?tab=decided`);
  await keeps(page, page.getByRole("region", { name: "Decided approvals" }));
  await page.goto(`${server.url}/ui/sessions/${id}/events`);
  await keeps(page, page.getByTestId("events"));
  await page.goto(`${server.url}/ui/sessions/${id}`);
  await keeps(page, page.getByTestId("transcript"));
});

test("the minimap shows the turns and their states, leads to each by click and by keys, and has few elements", async ({ page, server }) => {
  const id = await server.session("Turns");
  for (let i = 0; i < 30; i++) {
    await server.say(id, i === 3 ? "broken" : `hello ${i}`);
    await server.api("GET", `/v1/sessions/${id}?wait=30s`);
  }
  await enter(page, server, `sessions/${id}`);
  const map = page.getByRole("slider", { name: "Turns of the transcript" });
  await expect(map).toHaveAttribute("aria-valuemax", "30");
  await expect(map.locator(".tick.tone-bad")).toHaveCount(1);
  await expect(map.locator(".tick")).toHaveCount(30);
  expect(await map.locator("*").count()).toBeLessThanOrEqual(200);
  await accessible(page);
  await picture(page, "session-minimap");
  const transcript = page.getByTestId("transcript");
  await map.focus();
  await page.keyboard.press("Home");
  await expect(map).toHaveAttribute("aria-valuetext", "Turn 1, ended");
  await expect(transcript.getByText("hello 0")).toBeInViewport();
  for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowDown");
  await expect(map).toHaveAttribute("aria-valuetext", "Turn 4, failed");
  await page.keyboard.press("PageDown");
  await expect(map).toHaveAttribute("aria-valuenow", "14");
  await map.click({ position: { x: 12, y: 2 } });
  await expect(transcript.getByText("hello 0")).toBeInViewport();
  await page.keyboard.press("End");
  await expect(transcript.getByText("hello 29")).toBeInViewport();
  await page.setViewportSize({ width: 380, height: 800 });
  await expect(map).toBeHidden();
  await fits(page);
});
