import type { Page } from "@playwright/test";
import { connection, enter, expect, picture, test } from "./rig";
import { rows } from "./scale";

const many = 10_000;

// journal answers a request for events with the work of n calls, one after another.
function journal(session: string, n: number): string {
  const at = (ms: number) => new Date(1_780_000_000_000 + ms).toISOString();
  const event = (seq: number, ms: number, type: string, data: object) => ({ v: 1, id: `event_${String(seq).padStart(32, "0")}`, seq, type, at: at(ms), session_id: session, data });
  const items = Array.from({ length: n }, (_, i) => [
    event(2 * i + 1, 1000 * i, "tool.started", { call_id: `call_${i}`, name: "bash", narration: `Running step ${i}` }),
    event(2 * i + 2, 1000 * i + 700, "tool.completed", { call_id: `call_${i}`, name: "bash", status: "success", result: {} }),
  ]).flat();
  return JSON.stringify({ items: items.reverse(), last_seq: 2 * n, read_to: 1 });
}

// firstPaint opens a timeline within the page, and returns the processor time of the main thread until its
// bars are painted, in ms.
async function firstPaint(page: Page, url: string, session: string, n: number): Promise<number> {
  const body = journal(session, n);
  await page.route(/\/events\?.*before=/, (r) => r.fulfill({ contentType: "application/json", body }));
  await page.goto(`${url}/ui/sessions/${session}`);
  await expect(connection(page)).toHaveAttribute("data-state", "live");
  const link = page.getByRole("link", { name: "Timeline" }).last();
  await expect(link).toBeVisible();
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
  const busy = async () => 1000 * (await devtools.send("Performance.getMetrics")).metrics.find((m) => m.name === "TaskDuration")!.value;
  const before = await busy();
  await page.evaluate(() => {
    const painted = new Promise((resolve) => {
      const look = () => (document.querySelector("li [data-bar]") ? requestAnimationFrame(resolve) : requestAnimationFrame(look));
      look();
    });
    (window as unknown as { painted: Promise<unknown> }).painted = painted;
  });
  await link.click();
  await page.evaluate(() => (window as unknown as { painted: Promise<unknown> }).painted);
  const spent = (await busy()) - before;
  await devtools.detach();
  await expect(page.getByTestId("bar-count")).toContainText(n === many ? /^10,?000 bars/ : `${n} bars`);
  return spent;
}

test("a timeline of 10,000 bars is painted within 400 ms more than one of ten", async ({ page, server }) => {
  const session = await server.session("Many bars");
  await server.say(session, "hello");
  await server.api("GET", `/v1/sessions/${session}?wait=20s`);
  await enter(page, server);
  await firstPaint(page, server.url, session, 10); // with the code of the page, which is then known
  const few = await firstPaint(page, server.url, session, 10);
  const all = await firstPaint(page, server.url, session, many);
  console.log(`first paint: ${few.toFixed()} ms of the processor with 10 bars, ${all.toFixed()} ms with ${many}`);
  expect(await rows(page)).toBeLessThanOrEqual(300);
  await picture(page, "timeline-many");
  expect(all - few).toBeLessThanOrEqual(400);

  // The last of them is in reach, in the chart and in the table.
  await page.getByTestId("chart").evaluate((el) => el.scrollTo(0, el.scrollHeight));
  await expect(page.locator("li [data-bar]").last()).toContainText(`Running step ${many - 1}`);
  await page.getByRole("region", { name: "The same work as a table" }).evaluate((el) => el.scrollTo(0, el.scrollHeight));
  await expect(page.locator("tr[data-bar]").last()).toContainText(`Running step ${many - 1}`);
  expect(await rows(page)).toBeLessThanOrEqual(300);
});
