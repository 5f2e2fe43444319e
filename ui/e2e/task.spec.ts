import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { accessible, connection, enter, expect, fits, picture, test as base } from "./rig";
import { Server } from "./server";

const fixture = JSON.stringify({ mcpServers: { fx: { command: process.execPath, args: [join(import.meta.dirname, "tools.mjs")], soft_budget: "300ms" } } });

const test = base.extend<{ server: Server }>({
  // eslint-disable-next-line no-empty-pattern
  server: async ({}, use) => {
    const server = await Server.start("tasks.yaml", { "mcp.json": fixture });
    await use(server);
    await server.stop();
  },
});

type Task = { id: string; state: string; tool: string; display_name?: string };

// ask starts a session whose agent has the tools, and sends it one message.
async function ask(server: Server, text: string, ...more: string[]): Promise<string> {
  const made = await server.api<{ id: string }>("POST", "/v1/sessions", {
    agent: { name: "helper", capabilities: ["bashkit_shell", "mcp_fx", ...more], metadata: { workspace: join(server.home, "work") } },
    title: text,
  });
  await server.say(made.id, text);
  return made.id;
}

// taskIn waits until a session has a task in a state.
async function taskIn(server: Server, session: string, ...states: string[]): Promise<Task> {
  let found: Task | undefined;
  await expect
    .poll(async () => {
      found = (await server.api<{ items: Task[] }>("GET", `/v1/tasks?session=${session}`)).items.find((t) => states.includes(t.state));
      return found?.state;
    })
    .toBeTruthy();
  return found!;
}

const state = (page: Page) => page.getByTestId("task-state");
const lastLine = async (page: Page) => Number(/line (\d+)\D*$/.exec(await page.getByLabel("Output").innerText())?.[1] ?? 0);
const rows = (page: Page) => page.locator(".taskrow");

test("U-3: every running task is one command and one click away, and its log follows", async ({ page, server }) => {
  await taskIn(server, await ask(server, "count"), "running");
  expect(await server.cli("ps")).toContain("Count");
  await enter(page, server);
  await page.getByRole("link", { name: "Tasks" }).first().click();
  await page.getByRole("link", { name: /Count/ }).click();
  await expect(page.getByRole("heading", { name: "Count" })).toBeVisible();
  await expect(page.getByLabel("Output")).toContainText(/line \d+/);
  await expect(page.getByTestId("log-state")).toContainText("follows");
  await expect(page.getByRole("list", { name: "Life of the task" })).toContainText("Claimed (attempt 1)");
  await accessible(page);
  await page.getByRole("button", { name: "Commands" }).click();
  await expect(page.getByRole("dialog")).toContainText("perdure task cancel");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Cancel task" }).click();
  await expect(page.getByTestId("receipt")).toContainText("Cancel requested");
  await expect(state(page)).toContainText("Canceled");
  await expect(page.getByTestId("receipt")).toContainText("nothing of it runs any more");
});

test("a command that ignores a cancel: Force ends its grace period", async ({ page, server }) => {
  server.more.PERDURE_LIMITS_GRACE = "30m"; // longer than the test, on any machine
  await server.kill();
  await server.start();
  const task = await taskIn(server, await ask(server, "stubborn"), "running");
  await enter(page, server, `tasks/${task.id}`);
  await expect(page.getByLabel("Output")).toContainText("ready");
  await page.getByRole("button", { name: "Cancel task" }).click();
  const force = page.getByRole("button", { name: "Force" });
  await expect(force).toBeVisible();
  await expect(page.getByTestId("receipt")).toContainText("What it is writing may be left incomplete");
  await accessible(page);
  await picture(page, "task-force");
  await force.click();
  await expect(state(page)).toContainText("Canceled");
  await expect(page.getByTestId("receipt")).toContainText(/nothing of it runs any more|it did not stop in time/);
  await expect(page.getByRole("list", { name: "Life of the task" })).toContainText("Force requested");
  await expect(force).toBeHidden();
  const at = await server.api<{ cancel_requested_at: string; force_requested_at?: string }>("GET", `/v1/tasks/${task.id}`);
  expect(at.force_requested_at).toBeTruthy();
});

test("an unknown outcome: what it means, and its resolution in the browser", async ({ page, server }) => {
  const task = await taskIn(server, await ask(server, "hang"), "running");
  await server.kill();
  await server.start();
  await enter(page, server, "tasks?tab=failed");
  await expect(page.getByTestId("ribbon")).toContainText("The server died");
  await expect(page.getByTestId("ribbon")).toContainText("0 effects repeated");
  await page.getByRole("button", { name: "Why it was safe" }).click();
  await expect(page.getByTestId("ribbon")).toContainText("which looks for its work");
  await expect(page.getByTestId("ribbon").getByRole("link", { name: "1 unknown: resolve" })).toBeVisible();
  await accessible(page);
  await picture(page, "tasks-ribbon");
  await page.locator(`a[href$="${task.id}"]`).first().click();
  await expect(state(page)).toContainText("Unknown outcome");
  await expect(page.getByTestId("unknown")).toContainText("outcome unknown");
  await page.getByRole("button", { name: "Resolve…" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByRole("button", { name: "Record it" })).toBeDisabled();
  await dialog.getByLabel(/^It happened/).check();
  await dialog.getByLabel(/^Result/).fill('{"order": "A-17"}');
  await dialog.getByLabel(/^Note/).fill("the bank has it");
  await expect(dialog).toContainText(`perdure task resolve ${task.id} --happened`);
  await accessible(page);
  await picture(page, "task-resolve");
  await dialog.getByRole("button", { name: "Record it" }).click();
  await expect(state(page)).toContainText("Done");
  await expect(dialog).toHaveCount(0);
  await expect(page.getByTestId("unknown")).toHaveCount(0);
});

test("a question is answered in the page, by the form that its schema makes", async ({ page, server }) => {
  const session = await ask(server, "book");
  const task = await taskIn(server, session, "awaiting_input");
  await enter(page, server, "tasks");
  await expect(page.getByTestId("tab-needs-you")).toContainText("1");
  await page.locator(`a[href$="${task.id}"]`).click();
  const question = page.getByTestId("question");
  await expect(question).toContainText("Which one?");
  await expect(question.getByRole("button", { name: "Answer", exact: true })).toBeDisabled();
  await question.getByLabel("Blue").check();
  await question.getByLabel(/Guests/).fill("two");
  await expect(question).toContainText("no integer");
  await question.getByLabel(/Guests/).fill("2");
  await accessible(page);
  await picture(page, "task-question");
  await question.getByRole("button", { name: "Answer", exact: true }).click();
  await expect(state(page)).toContainText("Done");
  await page.getByRole("tab", { name: "Arguments and result" }).click();
  await expect(page.getByLabel("Result", { exact: true })).toContainText("Blue");
});

test("kill -9 of the server while a task is open: it says so, keeps what is shown, resumes, and shows the ribbon", async ({ page, server }) => {
  const task = await taskIn(server, await ask(server, "count"), "running");
  await enter(page, server, `tasks/${task.id}`);
  await expect.poll(() => lastLine(page)).toBeGreaterThan(1);
  await server.kill();
  await expect(connection(page)).toHaveAttribute("data-state", /reconnecting|offline/);
  await expect(page.getByTestId("log-state")).toContainText("the server is away");
  const last = await lastLine(page);
  expect(last).toBeGreaterThan(1);
  await expect(state(page)).toContainText("Running");
  await picture(page, "task-server-away");
  await server.start();
  await expect(connection(page)).toHaveAttribute("data-state", "live");
  await expect(page.getByTestId("ribbon")).toContainText(/The server died after \d\d:\d\d:\d\d, .*1 task.* resumed in .* 0 effects repeated/);
  await expect(page.getByTestId("log-state")).toContainText("follows");
  await expect(page.getByRole("list", { name: "Life of the task" })).toContainText("Taken over (attempt 2)");
  await expect.poll(() => lastLine(page)).toBeGreaterThan(last + 3);
  await page.getByRole("tab", { name: "Attempts" }).click();
  await expect(page).toHaveURL(/tab=attempts/);
  await expect(page.getByRole("cell", { name: /still ran and was followed again/ })).toBeVisible();
  await accessible(page);
  await page.getByRole("link", { name: /^seq \d+$/ }).last().click();
  await expect(page).toHaveURL(/tab=events&seq=\d+/);
  await expect(page.locator("details[open]")).toContainText("task.reattached");
  await page.reload();
  await expect(page.locator("details[open]")).toContainText("task.reattached");
});

test("a long log: few rows in the document, one line of a megabyte, search, first error, times, download", async ({ page, server }) => {
  const task = await taskIn(server, await ask(server, "long"), "succeeded", "failed");
  await enter(page, server, `tasks/${task.id}`);
  const output = page.getByLabel("Output");
  await expect(output).toContainText("50");
  await expect(page.getByTestId("log-state")).toContainText("complete");
  await page.getByRole("button", { name: "Read all" }).click();
  await expect(page.getByTestId("log-state")).toContainText(/300,05\d lines/);
  expect(await page.locator(".logrow").count()).toBeLessThanOrEqual(300);
  await page.getByRole("button", { name: "First error" }).click();
  await expect(page.locator(".logrow[data-found]")).toContainText("FATAL out of paper");
  await page.getByLabel("Search the log").fill("<b>red");
  await expect(output).toContainText("␛[31m<b>red</b>␛[0m");
  await expect(output.locator("b")).toHaveCount(0);
  await page.getByLabel("Search the log").fill("row 123456");
  await expect(page.locator(".logrow mark")).toHaveText("row 123456");
  await page.getByLabel("Search the log").press("Enter");
  await picture(page, "task-log");
  await accessible(page);
  await page.getByLabel("Search the log").fill("xxxxxxxx");
  await expect(page.locator(".logrow mark").first()).toBeVisible();
  await fits(page);
  await page.getByLabel("Wrap").uncheck();
  await expect(page.getByText("the line goes on")).toBeVisible();
  expect(await page.locator(".logrow").count()).toBeLessThanOrEqual(300);
  await page.getByLabel("Times").check();
  await expect(page.locator(".logrow .at").first()).toHaveText(/^\d\d:\d\d:\d\d/);
  await page.getByLabel("Errors only").check();
  await expect(output).toContainText("FATAL out of paper");
  await expect(output).not.toContainText("row ");
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).click()]);
  const saved = readFileSync(await file.path(), "utf8");
  expect(saved).toContain("row 1\nrow 2\n");
  expect(saved).toContain("FATAL out of paper\n");
  expect(saved.length).toBeGreaterThan(4_000_000);
});

test("many are selected, and each action says before what it would do", async ({ page, server }) => {
  const failed = await taskIn(server, await ask(server, "fail"), "failed");
  await taskIn(server, await ask(server, "fail again"), "failed");
  await enter(page, server, "tasks?tab=failed");
  await expect(rows(page)).toHaveCount(2);
  await expect(page.getByTestId("tab-failed")).toContainText("2");
  await page.getByLabel("Select all rows").check();
  await page.getByRole("button", { name: /^Retry… 2/ }).click();
  await expect(page.getByTestId("dry-run")).toContainText("This retries 2 tasks of the 2 selected");
  await accessible(page);
  await picture(page, "tasks-retry");
  await page.getByRole("button", { name: "Retry 2 tasks" }).click();
  await expect(page.getByText("2 of 2 done.")).toBeVisible();
  await page.getByRole("button", { name: "Close" }).click();
  await expect(page.getByTestId("tab-failed")).toContainText("4");
  await page.goto(`${server.url}/ui/tasks/${failed.id}`);
  await page.getByRole("button", { name: "Retry…" }).click();
  await expect(page.getByRole("dialog")).toContainText("had a part of its effect");
});

test("U-5: a call that holds its turn is detached from its card, and lives on as a task", async ({ page, server }) => {
  const session = await ask(server, "wait");
  await enter(page, server, `sessions/${session}`);
  await expect(page.getByText("This turn waits for it")).toBeVisible();
  await page.getByRole("button", { name: "Detach" }).click();
  await expect(page.locator(".card")).toHaveAttribute("data-state", "background");
  await taskIn(server, session, "running");
  await expect(page.getByText("This turn waits for it")).toHaveCount(0);
});

test("U-6: the page of a task shows who sent each message", async ({ page, server }) => {
  const task = await taskIn(server, await ask(server, "count"), "running");
  await enter(page, server, `tasks/${task.id}`);
  await page.getByRole("tab", { name: "Messages" }).click();
  await expect(page.getByText("Nothing was sent to this task, or by it.")).toBeVisible();
  for (const [user, text] of [
    ["alice", "leave out the drafts"],
    ["bob\u202e", "and <b>the notes</b>"],
  ]) {
    const { token } = await server.api<{ token: string }>("POST", "/v1/tokens", { name: "laptop", user, scopes: ["read", "write"] });
    const res = await fetch(`${server.url}/v1/tasks/${task.id}/messages`, {
      method: "POST",
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      body: JSON.stringify({ text }),
    });
    expect(res.ok).toBe(true);
  }
  const messages = page.getByRole("list", { name: "Messages of the task" }).getByRole("listitem");
  await expect(messages).toHaveCount(2);
  await expect(messages.nth(0)).toContainText(/alice sent.*leave out the drafts/s);
  await expect(messages.nth(1)).toContainText(/bob.* sent.*and <b>the notes<\/b>/s);
  await accessible(page);
  await picture(page, "task-messages");
  await page.reload();
  await expect(messages).toHaveCount(2);
  await page.setViewportSize({ width: 380, height: 800 });
  await fits(page);
});

test("U-5: ending one asks about the others", async ({ page, server }) => {
  const session = await ask(server, "count");
  const count = await taskIn(server, session, "running");
  await enter(page, server, `sessions/${session}`);
  await expect(page.locator(".card").first()).toContainText("detached: outlives its turn");
  const stateOf = async (id: string) => (await server.api<Task>("GET", `/v1/tasks/${id}`)).state;
  const interrupt = page.getByRole("button", { name: "Interrupt", exact: true });
  const dialog = page.getByRole("dialog");

  // An interrupt leaves background work alone, unless the person chooses otherwise.
  await server.say(session, "wait");
  await expect(page.locator(".card").last()).toContainText("turn: ends with its turn");
  await interrupt.click();
  await expect(dialog.getByRole("list", { name: "Keeps running" })).toContainText("Count");
  await expect(dialog).toContainText("detached: outlives its turn");
  await expect(dialog.getByRole("checkbox", { name: "Also cancel this task" })).not.toBeChecked();
  await expect(dialog).not.toContainText("perdure task cancel");
  await dialog.getByText("As a command").click();
  await expect(dialog).toContainText(`perdure session interrupt ${session}`);
  await accessible(page);
  await picture(page, "session-interrupt-others");
  await page.keyboard.press("Escape");
  await expect(dialog).toHaveCount(0);
  await expect(interrupt).toBeFocused();
  await interrupt.click();
  await dialog.getByRole("button", { name: "Interrupt" }).click();
  await expect(page.getByText(/Turn interrupted by/)).toBeVisible();
  expect(await stateOf(count.id)).toBe("running");

  await server.say(session, "wait again");
  await interrupt.click();
  await dialog.getByRole("checkbox", { name: "Also cancel this task" }).check();
  await expect(dialog).toContainText(`perdure task cancel ${count.id}`);
  await dialog.getByRole("button", { name: "Interrupt" }).click();
  await expect(page.getByText(/Turn interrupted by/)).toHaveCount(2);
  await expect.poll(() => stateOf(count.id)).toBe("canceled");
});

test("U-5: a cancel names the work below the task, and the deletion of a session what is left", async ({ page, server }) => {
  const session = await ask(server, "team", "subagents");
  const team = await taskIn(server, session, "running");
  const child = (await server.api<{ links: { child_session_id: string } }>("GET", `/v1/tasks/${team.id}`)).links.child_session_id;
  const inside = await taskIn(server, child, "running");
  await server.say(session, "count");
  await expect.poll(async () => (await server.api<{ items: Task[] }>("GET", `/v1/tasks?session=${session}&state=running`)).items.length).toBe(2);
  const dialog = page.getByRole("dialog");
  await enter(page, server, `tasks/${team.id}`);
  await page.getByRole("button", { name: "Cancel task" }).click();
  await expect(dialog.getByRole("list", { name: "Ends with it" })).toContainText("Count");
  await expect(dialog.getByRole("list", { name: "Keeps running" }).getByRole("listitem")).toHaveCount(1);
  await picture(page, "task-cancel-others");
  await dialog.getByRole("button", { name: "Cancel task" }).click();
  await expect(state(page)).toContainText("Canceled");
  await taskIn(server, child, "canceled");
  expect((await server.api<Task>("GET", `/v1/tasks/${inside.id}`)).state).toBe("canceled");
  const count = await taskIn(server, session, "running");

  await page.goto(`${server.url}/ui/sessions/${session}`);
  await expect(page.getByTestId("session-state")).toContainText("Idle");
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await expect(dialog.getByRole("list", { name: "Still running" })).toContainText("Count");
  await dialog.getByLabel(/Type .* to confirm/).fill(session.slice(-6));
  const remove = dialog.getByRole("button", { name: "Delete" });
  await expect(remove).toBeDisabled();
  await dialog.getByRole("checkbox", { name: "Also cancel this task" }).check();
  await expect(dialog).toContainText(`perdure task cancel ${count.id}`);
  await accessible(page);
  await picture(page, "session-delete-others");
  await remove.click();
  await expect(page.getByRole("heading", { name: "Sessions" })).toBeVisible();
  await expect(page.getByRole("link", { name: /team/ })).toHaveCount(0);
  const gone = await fetch(`${server.url}/v1/sessions/${session}`, { headers: { Authorization: `Bearer ${server.token}` } });
  expect(gone.status).toBe(404);
});

test("U-9: filter, tab and rows stay over reload and back; what a filter cannot mean is said", async ({ page, server }) => {
  await taskIn(server, await ask(server, "count"), "running");
  await taskIn(server, await ask(server, "climb"), "running");
  await enter(page, server, "tasks?tab=working");
  await expect(rows(page)).toHaveCount(2);
  await page.getByLabel("Filter", { exact: true }).fill("tool:bash");
  await expect(rows(page)).toHaveCount(1);
  await expect(page).toHaveURL(/tab=working&q=tool/);
  await page.reload();
  await expect(rows(page)).toHaveCount(1);
  await rows(page).getByRole("link").click();
  await expect(page.getByRole("heading", { name: "Count" })).toBeVisible();
  await page.goBack();
  await expect(rows(page)).toHaveCount(1);
  await expect(page.getByLabel("Filter", { exact: true })).toHaveValue("tool:bash");
  await page.getByRole("button", { name: "Cancel all that match…" }).click();
  await expect(page.getByTestId("dry-run")).toContainText("1 unfinished task");
  await page.getByRole("button", { name: "Cancel 1 task" }).click();
  await expect(page.getByText("1 of 1 asked to end.")).toBeVisible();
  await page.getByRole("button", { name: "Close" }).click();
  await page.getByLabel("Filter", { exact: true }).fill("older:soon");
  await expect(page.getByText(/is no duration/)).toBeVisible();
});

test("U-8: rows do not move under the pointer, and live updates shift nothing", async ({ page, server }) => {
  await taskIn(server, await ask(server, "climb"), "running");
  await taskIn(server, await ask(server, "count"), "running");
  await enter(page, server, "tasks?tab=working");
  await expect(rows(page)).toHaveCount(2);
  await page.evaluate(() => {
    const w = window as unknown as { shift: number };
    w.shift = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((e) => (w.shift += (e as unknown as { value: number }).value))).observe({ type: "layout-shift" });
  });
  const row = rows(page).filter({ hasText: "Count" });
  await row.hover();
  const before = await row.boundingBox();
  await taskIn(server, await ask(server, "count more"), "running");
  await expect(page.getByRole("button", { name: "Show 1 new" })).toBeVisible();
  await expect(rows(page).filter({ hasText: "climb" })).toContainText(/\/(s|min)/);
  expect(await row.boundingBox()).toEqual(before);
  await page.mouse.move(5, 5);
  await expect(rows(page)).toHaveCount(3);
  expect(await page.evaluate(() => (window as unknown as { shift: number }).shift)).toBeLessThanOrEqual(0.02);
});

test("U-7: with a clock that is an hour behind or ahead, no duration is negative", async ({ page, server }) => {
  const task = await taskIn(server, await ask(server, "count"), "running");
  for (const hours of [-1, 1]) {
    await page.clock.setFixedTime(Date.now() + hours * 3_600_000);
    await enter(page, server, `tasks/${task.id}`);
    await expect(page.getByRole("list", { name: "Life of the task" })).toContainText("Running");
    const text = await page.locator("main").innerText();
    expect(text).not.toMatch(/-\d/);
    expect(text).toMatch(/for (\d+\.\d s|\d+ s|1 min)/);
  }
});

test("by keyboard only: filter, select, open, change the tab", async ({ page, server }) => {
  await taskIn(server, await ask(server, "count"), "running");
  await enter(page, server, "tasks?tab=working");
  await expect(rows(page)).toHaveCount(1);
  const reach = async (what: string) => {
    for (let i = 0; i < 40; i++) {
      await page.keyboard.press("Tab");
      const name = await page.evaluate(() => {
        const el = document.activeElement as HTMLElement;
        return el.getAttribute("aria-label") || el.innerText || "";
      });
      if (name.includes(what)) return;
    }
    throw new Error(`${what} is not reached by Tab`);
  };
  await reach("Select Count");
  await page.keyboard.press("Space");
  await expect(page.getByRole("button", { name: /^Cancel… 1/ })).toBeVisible();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "Count" })).toBeVisible();
  await reach("Log");
  await page.keyboard.press("ArrowRight");
  await expect(page).toHaveURL(/tab=result/);
});

for (const scheme of ["light", "dark"] as const) {
  for (const width of [380, 1440]) {
    test(`tasks and a task at ${width} px, ${scheme}`, async ({ page, server }) => {
      await page.emulateMedia({ colorScheme: scheme });
      await page.setViewportSize({ width, height: 800 });
      const count = await taskIn(server, await ask(server, "count"), "running");
      await taskIn(server, await ask(server, "climb"), "running");
      await taskIn(server, await ask(server, "fail"), "failed");
      await taskIn(server, await ask(server, "quick"), "succeeded");
      await enter(page, server);
      for (const [name, path, shown] of [
        ["tasks-working", "tasks?tab=working", rows(page).first()],
        ["tasks-failed", "tasks?tab=failed", rows(page).first()],
        ["tasks-done", "tasks?tab=done", rows(page).first()],
        ["task-log", `tasks/${count.id}`, page.getByText(/^line \d+$/).first()],
        ["task-events", `tasks/${count.id}?tab=events`, page.getByText("task.created").first()],
        ["task-result", `tasks/${count.id}?tab=result`, page.getByLabel("Arguments", { exact: true })],
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
