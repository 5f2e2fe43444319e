import type { Page } from "@playwright/test";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connection, enter, expect, picture, test as base } from "./rig";
import { bulk, measureWork, quantile, shifts, watchShifts } from "./scale";
import { Server } from "./server";

const many = 5000;
const slots = 700; // the oldest of them run, and the others are queued
const few = 50;
const folder = mkdtempSync(join(tmpdir(), "perdure-crew-"));
const fixture = JSON.stringify({ mcpServers: { crew: { command: process.execPath, args: [join(import.meta.dirname, "crew.mjs"), folder] } } });

const test = base.extend<{ server: Server }>({
  // eslint-disable-next-line no-empty-pattern
  server: async ({}, use) => {
    const server = await Server.start("tasks.yaml", { "mcp.json": fixture });
    await server.kill(); // the limits count from the next start on
    server.more.PERDURE_LIMITS_SLOTS_PER_PROCESS = String(slots);
    for (const limit of ["SLOTS_PER_SESSION", "DETACHED_PER_SESSION", "QUEUE_LENGTH"]) server.more[`PERDURE_LIMITS_${limit}`] = String(many);
    await server.start();
    await use(server);
    pulses.forEach(clearInterval); // of a test that failed
    await tell({ exit: true }).catch(() => 0);
    await server.kill();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  },
});

const pulses: ReturnType<typeof setInterval>[] = [];

type Task = { id: string; state: string; display_name: string };
type Report = { n: number; step: number };

const sessions = 5; // each of them has a process of its own for the tools

// Crew is a number of live tasks of some sessions. Task n is named "Work n".
class Crew {
  readonly ids: string[] = [];
  private sessions: string[] = [];
  private step = 0;
  private over = 0; // tasks that were ended
  constructor(private server: Server) {}

  // grow starts tasks until there are n.
  async grow(n: number) {
    while (this.sessions.length < sessions) {
      this.sessions.push((await this.server.api<{ id: string }>("POST", "/v1/sessions", { agent: { name: "helper", capabilities: ["mcp_crew"] }, title: `Crew ${this.sessions.length}` })).id);
    }
    const first = this.ids.length;
    const began = Date.now();
    await bulk(n - first, 25, async (i) => {
      const call = await this.server.api<{ task: Task }>("POST", `/v1/sessions/${this.sessions[(first + i) % sessions]}/calls`, { tool: "crew__work", args: { n: first + i }, title: `Work ${first + i}` });
      this.ids[first + i] = call.task.id;
    });
    if (n - first > 1) console.log(`${n - first} tasks were started in ${Date.now() - began} ms`);
    await expect.poll(() => tell({}), { timeout: 120_000 }).toBeGreaterThanOrEqual(Math.min(n - this.over, slots));
    if (n - first > 1) console.log(`the slots are taken after ${Date.now() - began} ms`);
  }

  // update reports progress of some tasks, and returns the step that each of them names.
  async update(...which: number[]): Promise<number> {
    const step = ++this.step;
    await tell({ report: which.map((n) => ({ n, step })) });
    return step;
  }

  async end(n: number) {
    this.over++;
    await tell({ end: [n] });
  }
}

type Message = { report?: Report[]; end?: number[]; exit?: boolean };

// tell says to the tools what to report, and which of them end. It returns how many run.
async function tell(what: Message): Promise<number> {
  const counts = await Promise.all(readdirSync(folder).map((name) => tellOne(join(folder, name), what).catch(() => 0)));
  return counts.reduce((sum, n) => sum + n, 0);
}

function tellOne(socketPath: string, what: Message): Promise<number> {
  return new Promise((resolve, reject) => {
    const req = request({ socketPath, method: "POST" }, (res) => {
      let text = "";
      res.on("data", (part) => (text += part)).on("end", () => resolve(Number(text)));
    });
    req.on("error", reject).end(JSON.stringify(what));
  });
}

// pulse updates ten tasks a second until it is stopped: one of "near" and nine of the first ones, and in each
// second one of "ends" ends and a new one is added.
function pulse(crew: Crew, near: number[], first: number, ends: number[]) {
  let i = 0;
  let busy: Promise<unknown> = Promise.resolve();
  const timer = setInterval(() => {
    const turn = i++;
    const n = turn % 10 === 0 ? near[(turn / 10) % near.length]! : (turn * 7919) % first;
    busy = busy.then(() => crew.update(n));
    const gone = turn % 10 === 5 ? ends.shift() : undefined;
    if (gone !== undefined) busy = busy.then(() => crew.end(gone)).then(() => crew.grow(crew.ids.length + 1));
  }, 100);
  pulses.push(timer);
  return async () => {
    clearInterval(timer);
    await busy;
  };
}

const rows = (page: Page) => page.locator(".taskrow");
const row = (page: Page, n: number) => rows(page).filter({ hasText: new RegExp(`Work ${n}(?!\\d)`) });

// cursors notes which pages of the list the browser reads.
function cursors(page: Page): string[] {
  const all: string[] = [];
  page.on("request", (r) => {
    const url = new URL(r.url());
    if (url.pathname.endsWith("/v1/tasks")) all.push(url.searchParams.get("cursor") ?? "");
  });
  return all;
}

// stateChange waits until a task is canceled with the next press of a button, and its row says so. It returns
// the times from the press to the answer of the server, and to the picture with the word.
function stateChange(page: Page, n: number): Promise<{ answered: number; shown: number }> {
  return page.evaluate(
    (name) =>
      new Promise<{ answered: number; shown: number }>((resolve) => {
        let [pressed, answered] = [0, 0];
        addEventListener("click", () => (pressed = performance.now()), { once: true, capture: true });
        new PerformanceObserver((list) => {
          for (const e of list.getEntries()) if (e.name.endsWith("/cancel")) answered = (e as PerformanceResourceTiming).responseEnd;
        }).observe({ type: "resource" });
        const look = () => {
          const row = [...document.querySelectorAll(".taskrow")].find((r) => r.querySelector(".title")?.firstChild?.textContent === name);
          if (pressed && answered && !/Running|Queued/.test(row?.querySelector(".state")?.textContent ?? "")) resolve({ answered: answered - pressed, shown: performance.now() - pressed });
          else requestAnimationFrame(look);
        };
        look();
      }),
    `Work ${n}`,
  );
}

// upTo scrolls the list until a row is in view.
async function upTo(page: Page, n: number) {
  const list = page.getByRole("region", { name: "List of tasks" });
  await expect
    .poll(
      async () => {
        await list.evaluate((el, to) => {
          const names = [...el.querySelectorAll(".title")].map((t) => Number(/Work (\d+)/.exec(t.textContent ?? "")?.[1]));
          if (Math.min(...names) > to) el.scrollTop = el.scrollHeight; // reads the next page
          else if (Math.max(...names) < to) el.scrollTop -= 500;
        }, n);
        return row(page, n).count();
      },
      { timeout: 120_000, intervals: [50] },
    )
    .toBe(1);
  await row(page, n).scrollIntoViewIfNeeded();
}

test("5,000 live tasks with ten updates a second: the rows in view are current, and no other page is read again", async ({ page, server }) => {
  test.setTimeout(600_000);
  const crew = new Crew(server);
  const measuredMs = 10_000;

  await crew.grow(few);
  await enter(page, server, "tasks?tab=working");
  await expect(rows(page).first()).toBeVisible();
  let stop = pulse(crew, [10, 20, 30], 40, [40, 41, 42, 43, 44, 45, 46, 47, 48, 49]);
  const small = await measureWork(page, measuredMs);
  await stop();

  await page.goto("about:blank");
  await crew.grow(many);
  await page.goto(`${server.url}/ui/tasks?tab=working`);
  await expect(connection(page)).toHaveAttribute("data-state", "live");
  await expect(page.getByTestId("tab-working")).toContainText(/4,?9\d\d|5,?0\d\d/, { timeout: 60_000 });

  // Far below what the stream holds, with more than forty pages above.
  const shown = slots - 50;
  await upTo(page, shown);
  await watchShifts(page);
  const asked = cursors(page);
  stop = pulse(crew, [shown], shown - 50, Array.from({ length: 400 }, (_, i) => 50 + i));
  const large = await measureWork(page, measuredMs);
  const began = Date.now();
  const reads = asked.length;
  expect(new Set(asked).size, `pages that were read again: ${asked.length} reads`).toBeLessThanOrEqual(3);
  expect(await page.evaluate(() => document.querySelectorAll("main li").length)).toBeLessThanOrEqual(300);
  expect(large.script, `script time of ${many} tasks and of ${few}: ${large.script.toFixed()} and ${small.script.toFixed()} ms of ${measuredMs}`).toBeLessThan(4 * small.script + 400);
  expect(large.busy / large.frames, "processor time of a picture, of 20 ms at 50 a second").toBeLessThanOrEqual(20);
  console.log(`a picture costs ${(large.busy / large.frames).toFixed(1)} ms of the processor, p95 ${quantile(large.gaps, 0.95)} ms from one to the next`);
  console.log(`script ${small.script.toFixed()} and ${large.script.toFixed()} ms, busy ${small.busy.toFixed()} and ${large.busy.toFixed()} ms of ${measuredMs}; ${reads} reads of ${new Set(asked).size} pages; waited ${Date.now() - began}`);

  // A row in view shows its news, and leaves when it has ended.
  const step = await crew.update(shown);
  await expect.poll(async () => Number(/step (\d+) of/.exec(await row(page, shown).innerText())?.[1]), { timeout: 60_000 }).toBeGreaterThanOrEqual(step);

  // Under the pointer none moves; a cancel meets the row that was selected.
  await row(page, shown).hover();
  const place = await row(page, shown).boundingBox();
  await row(page, shown - 1).getByRole("checkbox").check();
  await crew.end(shown + 1);
  await expect(row(page, shown + 1)).toContainText("Left this list", { timeout: 60_000 });
  await page.getByRole("button", { name: /^Cancel… 1/ }).click();
  await expect(page.getByRole("dialog")).toContainText(`Work ${shown - 1}`);
  const word = stateChange(page, shown - 1);
  await page.getByRole("button", { name: "Cancel 1 task" }).click();
  const seen = await word;
  console.log(`the row said that its task is canceled ${seen.shown.toFixed()} ms after the press, and ${(seen.shown - seen.answered).toFixed()} ms after the answer of the server`);
  expect(seen.shown - seen.answered, "from the answer to the state word").toBeLessThanOrEqual(300);
  await expect.poll(async () => (await server.api<Task>("GET", `/v1/tasks/${crew.ids[shown - 1]}`)).state, { timeout: 60_000 }).toBe("canceled");
  expect((await row(page, shown).boundingBox())!.y).toBeCloseTo(place!.y, 0);
  await page.getByRole("button", { name: "Close" }).click();
  await picture(page, "tasks-many");

  await page.mouse.move(5, 5);
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
  await expect(row(page, shown + 1)).toHaveCount(0, { timeout: 60_000 });
  await expect(row(page, shown - 1)).toHaveCount(0, { timeout: 60_000 });
  await expect(row(page, shown)).toHaveCount(1);
  await stop();
  const moved = await shifts(page);
  expect(moved.sum, moved.what).toBeLessThanOrEqual(0.02);
});
