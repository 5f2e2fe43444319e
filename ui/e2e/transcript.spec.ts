import type { Page } from "@playwright/test";
import { join } from "node:path";
import { accessible, connection, enter, expect, fits, picture, test } from "./rig";
import { Server } from "./server";

const model = `scripted:${join(import.meta.dirname, "transcript.yaml")}`;

// scripted starts a session with the agent of these tests.
async function scripted(server: Server, title: string): Promise<string> {
  const tools = ["add", "web_fetch", "kv_store", "write_file", "spawn_subagent"];
  return (await server.api<{ id: string }>("POST", "/v1/sessions", { agent: { name: "clerk", model, tools }, title })).id;
}

const answer = (page: Page) => page.locator(".bubble.agent");

test("an answer has headings, lists, tables and code; links, images and HTML stay text", async ({ page, server }) => {
  const id = await scripted(server, "Report");
  await server.say(id, "report");
  await enter(page, server, `sessions/${id}`);
  await expect(answer(page).getByText("Result")).toBeVisible();
  await expect(answer(page).locator("strong")).toHaveText("three");
  await expect(answer(page).getByRole("listitem")).toHaveText(["march", "april"]);
  await expect(answer(page).getByRole("columnheader")).toHaveText(["file", "bytes"]);
  await expect(answer(page).getByRole("region", { name: "Code, sh" })).toHaveText("ls archive");
  await expect(answer(page)).toContainText("[more](javascript:alert(1)) <b>not bold</b> ![x](https://evil.example/x.png)");
  await expect(answer(page).locator("a, img, b")).toHaveCount(0);
  await accessible(page);
  await picture(page, "session-markdown");
});

test("a turn that continued after a provider error says so, and ends with its number and tokens", async ({ page, server }) => {
  const id = await scripted(server, "Flaky");
  await server.say(id, "flaky");
  await enter(page, server, `sessions/${id}`);
  await expect(page.getByText("Resumed after a provider error")).toBeVisible();
  await expect(page.getByText(/Turn completed · .* · 1,234 tokens · turn 1 · price of 1 model call unknown/)).toBeVisible();
  await expect(page.getByText("1,234 tokens of context")).toBeVisible();
  await expect(page.locator("header").getByText(/price of 1 model call unknown/)).toBeVisible();
});

test("a turn that is over soon after the page was opened shows what it cost", async ({ page, server }) => {
  const id = await scripted(server, "Quick");
  const read = page.waitForResponse((r) => r.url().includes("/v1/costs?"));
  await enter(page, server, `sessions/${id}`);
  await (await read).finished();
  await server.say(id, "report");
  await expect(page.getByText(/Turn completed · .* · price of 1 model call unknown/)).toBeVisible();
});

test("an image is shown from the server, and bytes that are no image leave a word", async ({ page, server }) => {
  const id = await scripted(server, "Images");
  const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAE0lEQVR4nGNgYPiPFQ0tCQaG/wBZ4z/BgZ+ZtgAAAABJRU5ErkJggg==", "base64");
  const put = await fetch(`${server.url}/v1/sessions/${id}/images?filename=a.png`, { method: "POST", headers: { Authorization: `Bearer ${server.token}`, "Content-Type": "image/png" }, body: png });
  expect(put.ok, await put.clone().text()).toBe(true);
  const stored = ((await put.json()) as { id: string }).id;
  await server.api("POST", `/v1/sessions/${id}/messages`, { content: [{ type: "text", text: "look" }, { type: "image_file", image_file: { id: stored } }] });
  await enter(page, server, `sessions/${id}`);
  const image = page.getByRole("img", { name: "Image 1" });
  await expect(image).toBeVisible();
  expect(new URL((await image.getAttribute("src"))!).origin).toBe(server.url);
  await page.route(/\/images\//, (route) => route.fulfill({ contentType: "image/png", body: "<script>" }));
  await page.reload();
  await expect(page.getByText(/cannot be shown/)).toBeVisible();
});

test("files, values, names of secrets and denied requests of a session are in the inspector, whose part is in the address", async ({ page, server }) => {
  const id = await scripted(server, "Inspect");
  await server.say(id, "store");
  await fetch(`${server.url}/v1/sessions/${id}/files/notes/today.md`, { method: "PUT", headers: { Authorization: `Bearer ${server.token}`, "Content-Type": "application/octet-stream" }, body: "hello" });
  const secret = await fetch(`${server.url}/v1/sessions/${id}/secrets/API_KEY`, {
    method: "PUT",
    headers: { Authorization: `Bearer ${server.token}`, "Content-Type": "application/json" },
    body: JSON.stringify({ value: "hush-hush" }),
  });
  expect(secret.ok).toBe(true);
  await enter(page, server, `sessions/${id}`);
  await expect(page.getByText(/Turn completed/)).toBeVisible();
  await server.say(id, "reach");
  await expect(page.getByText("A request to 127.0.0.1 was denied").first()).toBeVisible();
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Inspect" }).click();
  await page.getByRole("button", { name: "notes/" }).click();
  await expect(page.getByRole("link", { name: "today.md" })).toBeVisible();
  await accessible(page);
  await picture(page, "session-inspector");
  await page.getByRole("tab", { name: "Values" }).click();
  await page.getByRole("tabpanel").getByText("colour").click();
  await expect(page.getByLabel("Value of colour")).toContainText("blue");
  await page.getByRole("tab", { name: "Secrets" }).click();
  await expect(page).toHaveURL(/pane=secrets/);
  await expect(page.getByRole("tabpanel")).toContainText("API_KEY");
  await expect(page.locator("body")).not.toContainText("hush-hush");
  await page.reload();
  await expect(page.getByRole("tab", { name: "Secrets" })).toHaveAttribute("aria-selected", "true");
  await page.getByRole("tab", { name: /Denied requests/ }).click();
  await expect(page.getByRole("tabpanel")).toContainText("127.0.0.1");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("tab")).toHaveCount(0);
  await expect(page).not.toHaveURL(/pane=/);
});

test("a fork has the transcript, and repeats no effect", async ({ page, server }) => {
  const id = await scripted(server, "Origin");
  await enter(page, server, `sessions/${id}`);
  await server.say(id, "charge");
  await page.getByRole("button", { name: "Approve once" }).click();
  await expect(page.getByText(/The result is .*42/)).toBeVisible();
  await expect(page.getByText(/Turn completed/)).toBeVisible();
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Fork" }).click();
  await accessible(page);
  await picture(page, "session-fork");
  await page.getByLabel(/Up to event/).fill("99999");
  await expect(page.getByRole("dialog").getByRole("button", { name: "Fork", exact: true })).toBeDisabled();
  await page.getByLabel(/Up to event/).fill("");
  await page.getByRole("radio", { name: /Perform none/ }).check();
  await page.getByRole("dialog").getByRole("button", { name: "Fork", exact: true }).click();
  await expect(page.getByRole("heading", { name: "Origin (fork)" })).toBeVisible();
  await expect(page).not.toHaveURL(new RegExp(id));
  const fork = new URL(page.url()).pathname.split("/").at(-1)!;
  const calls = await server.api<{ items: unknown[] }>("GET", `/v1/sessions/${fork}/calls`);
  expect(calls.items).toHaveLength(0);
});

test("a session is exported from the page", async ({ page, server }) => {
  const id = await scripted(server, "Export");
  await server.say(id, "hello");
  await enter(page, server, `sessions/${id}`);
  await expect(page.getByText(/Turn completed/)).toBeVisible();
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("menuitem", { name: "Export" }).click();
  expect((await download).suggestedFilename()).toContain(id);
});

test("a decided call says who decided, and a subagent is a link", async ({ page, server }) => {
  const id = await scripted(server, "Delegate");
  await enter(page, server, `sessions/${id}`);
  await server.say(id, "charge");
  await page.getByRole("button", { name: "Deny…" }).click();
  await page.getByLabel("What the model reads").fill("not on a Friday");
  await page.getByRole("button", { name: "Deny", exact: true }).click();
  await page.locator(".card").getByRole("button", { name: /add/i }).click();
  await expect(page.locator(".card").first()).toContainText(/Denied.*by .*not on a Friday/);
  await page.getByRole("link", { name: "The decision" }).click();
  await expect(page.getByTestId("decided")).toContainText("not on a Friday");
  await page.goBack();
  await server.say(id, "delegate");
  const link = page.locator(".card").getByRole("link", { name: /Archive/ });
  await link.click();
  await expect(page).not.toHaveURL(new RegExp(id));
  await expect(answer(page).getByRole("listitem").first()).toBeVisible();
});

test("a call whose outcome is unknown says so beside its arguments, and leads to its resolution", async ({ page }) => {
  const fx = { command: process.execPath, args: [join(import.meta.dirname, "tools.mjs")] };
  const server = await Server.start("tasks.yaml", { "mcp.json": JSON.stringify({ mcpServers: { fx } }) });
  try {
    const { id } = await server.api<{ id: string }>("POST", "/v1/sessions", { agent: { name: "helper", capabilities: ["mcp_fx"] }, title: "Hang" });
    await enter(page, server, `sessions/${id}`);
    await server.say(id, "hang");
    await expect(page.locator(".card")).toHaveAttribute("data-state", "running");
    await server.kill();
    await server.start();
    await expect(page.locator(".card")).toHaveAttribute("data-state", "unknown");
    await accessible(page);
    await picture(page, "session-unknown");
    await page.getByRole("button", { name: "Resolve…" }).click();
    const dialog = page.getByRole("dialog");
    await expect(dialog.getByRole("button", { name: "Record it" })).toBeDisabled();
    await dialog.getByRole("radio", { name: /It happened/ }).check();
    await dialog.getByLabel(/Note/).fill("the bank has it");
    await expect(dialog).toContainText("--happened");
    await dialog.getByRole("button", { name: "Record it" }).click();
    await expect(dialog).toHaveCount(0);
    await expect(page.locator(".card")).toHaveAttribute("data-state", "success");
    await expect(page.getByText(/resolved a call: happened/)).toBeVisible();
  } finally {
    await server.stop();
  }
});

for (const scheme of ["light", "dark"] as const) {
  for (const width of [380, 1440]) {
    test(`a session at ${width} px, ${scheme}`, async ({ page, server }) => {
      await page.emulateMedia({ colorScheme: scheme });
      await page.setViewportSize({ width, height: 900 });
      const id = await scripted(server, "Move the invoices of March to the archive, and tell the customers");
      await server.say(id, "report");
      await enter(page, server, `sessions/${id}`);
      await expect(page.getByText(/Turn completed/)).toBeVisible();
      await server.say(id, "charge");
      await expect(page.getByTestId("approval").getByLabel("Exact arguments")).toBeVisible();
      await expect(connection(page)).toHaveAttribute("data-state", "live");
      await expect(page.getByText("I charge the customer.")).toBeInViewport(); // the dock took room, and the reader is still at the end
      await expect(page.getByRole("button", { name: /To the end|new entr/ })).toHaveCount(0);
      await fits(page);
      await accessible(page);
      await picture(page, `transcript-${scheme}-${width}`);
      await page.goto(`${server.url}/ui/sessions/${id}?pane=files`);
      await expect(page.getByRole("tabpanel")).toBeVisible();
      await fits(page);
      await accessible(page);
      await picture(page, `inspector-${scheme}-${width}`);
    });
  }
}
