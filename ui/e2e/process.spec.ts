import { join } from "node:path";
import type { Page } from "@playwright/test";
import { accessible, enter, expect, fits, picture, test as base } from "./rig";
import { Server } from "./server";

const test = base.extend<{ server: Server }>({
  // eslint-disable-next-line no-empty-pattern
  server: async ({}, use) => {
    const server = await Server.start("tasks.yaml");
    await use(server);
    await server.stop();
  },
});

// taskOf starts a session whose agent has the tools, sends it a message, and waits for its task.
async function taskOf(server: Server, text: string): Promise<string> {
  const made = await server.api<{ id: string }>("POST", "/v1/sessions", {
    agent: { name: "helper", capabilities: ["bashkit_shell"], metadata: { workspace: join(server.home, "work") } },
    title: text,
  });
  await server.say(made.id, text);
  let id = "";
  await expect
    .poll(async () => {
      const [task] = (await server.api<{ items: { id: string; state: string }[] }>("GET", `/v1/tasks?session=${made.id}`)).items;
      id = task?.id ?? "";
      return task?.state;
    })
    .toMatch(/running|succeeded|failed/);
  return id;
}

const part = (page: Page) => page.getByTestId("process");

test("the processes of a task: a tree without secrets, then how it ended", async ({ page, server }) => {
  const task = await taskOf(server, "branch");
  await enter(page, server, `tasks/${task}`);
  await page.getByRole("tab", { name: "Process" }).click();
  await expect(page).toHaveURL(/tab=process/);
  await expect(part(page)).toContainText("The command runs under its supervisor");
  const tree = page.getByRole("region", { name: "Processes" });
  await expect(tree).toContainText("sleep 600");
  await expect(tree).toContainText("holder --password <redacted>");
  await expect(page.locator("body")).not.toContainText("hunter-of-the-test");
  const depth = async (text: string) => Number(await tree.locator("code", { hasText: text }).last().getAttribute("data-depth"));
  expect(await depth("└ sleep 600")).toBe((await depth("holder")) + 1);
  await expect(tree).toContainText(/\d+ %/); // it was read again
  for (const scheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const width of [380, 1440]) {
      await page.setViewportSize({ width, height: 900 });
      await fits(page);
      expect((await page.getByRole("tablist").boundingBox())?.height).toBeGreaterThan(30);
      await accessible(page);
      await tree.scrollIntoViewIfNeeded();
      await picture(page, `task-process-${width}-${scheme}`);
    }
  }
  await page.setViewportSize({ width: 380, height: 900 });
  await page.reload();
  await expect(page.getByRole("tab", { name: "Process" })).toBeInViewport({ ratio: 1 });
  await server.cli("task", "cancel", task, "--yes");
  await expect(part(page)).toContainText("The command has ended");
  await expect(part(page)).toContainText(/Signal 15, exit code 143, after a stop was requested/);
  await expect(tree).toBeHidden();
  await accessible(page);
});

test("the processes of a task while the server is away: what was shown stays, with its time", async ({ page, server }) => {
  const task = await taskOf(server, "branch");
  await enter(page, server, `tasks/${task}?tab=process`);
  await expect(part(page)).toContainText("sleep 600");
  await server.kill();
  await expect(part(page)).toContainText("The server does not answer. This is as of");
  await expect(part(page)).toContainText("sleep 600");
  await server.start();
  await expect(part(page)).not.toContainText("The server does not answer");
  await expect(part(page)).toContainText("holds the command");
});

test("a task at another data directory names it, and one without processes says so", async ({ page, server }) => {
  const task = await taskOf(server, "quick");
  const answer = { task_id: task, tool: "bash", kind: "background_tool", state: "elsewhere", home_id: "home_019aa0000000700080000000000000aa", host: "beta", observed_at: "2026-01-01T00:00:00Z", processes: [], count: 0, cpu_ms: 0, files: [] };
  const states = [answer, { ...answer, state: "none", home_id: undefined, host: undefined }, { ...answer, state: "lost" }];
  await page.route("**/v1/tasks/*/process", (route) => route.fulfill({ json: states[0] }));
  await enter(page, server, `tasks/${task}?tab=process`);
  await expect(part(page)).toContainText("another data directory on beta");
  for (const words of ["No process belongs to this task", "did not record how the command ended"]) {
    states.shift();
    await page.reload();
    await expect(part(page)).toContainText(words);
    await accessible(page);
  }
});
