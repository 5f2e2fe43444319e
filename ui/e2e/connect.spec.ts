import type { BrowserContext, Page } from "@playwright/test";
import { enter, expect, test as base } from "./rig";
import { Server } from "./server";
import { service, type Service } from "./service";

// test has a server with an MCP server whose calls carry the token of an account, which is not connected.
const test = base.extend<{ tickets: Service; server: Server }>({
  // eslint-disable-next-line no-empty-pattern
  tickets: async ({}, use) => {
    const tickets = await service();
    await use(tickets);
    tickets.outside.stop();
  },
  server: async ({ tickets }, use) => {
    const { url, port } = tickets.outside;
    const server = await Server.start("connect.yaml", {
      "mcp.json": JSON.stringify({ mcpServers: { desk: { url: `${url}/mcp`, headers: { Authorization: "Bearer connection:tickets" } } } }),
    });
    await server.cli("egress", "allow", "--private", `127.0.0.1:${port}`);
    server.write(
      "oauth.json",
      JSON.stringify({
        redirect_url: `${server.url}/v1/connections/callback`,
        providers: { tickets: { authorize_url: `${url}/authorize`, token_url: `${url}/token`, client_id: "app", scopes: ["read"], hosts: ["127.0.0.1"] } },
      }),
    );
    await use(server);
    await server.stop();
  },
});

const accounts = (page: Page) => page.getByRole("list", { name: "Accounts that the server needs" });

// begin opens the MCP server in the settings and begins to connect its account. It returns the tab of the service.
async function begin(page: Page, context: BrowserContext, server: Server): Promise<Page> {
  await page.goto(`${server.url}/ui/settings/mcp?item=desk`);
  await expect(accounts(page)).toContainText("Not connected");
  await page.getByRole("button", { name: "Connect…" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByRole("textbox", { name: /^Service/ })).toHaveValue("tickets");
  await dialog.getByRole("button", { name: "Begin", exact: true }).click();
  const opened = context.waitForEvent("page");
  await dialog.getByRole("link", { name: "Continue at the service" }).click();
  const tab = await opened;
  await expect(tab.getByRole("heading", { name: "May Perdure use your account?" })).toBeVisible();
  return tab;
}

test("a person who refuses at the service connects nothing, and can begin again", async ({ page, context, server, tickets }) => {
  await enter(page, server);
  const tab = await begin(page, context, server);
  await tab.getByRole("link", { name: "Refuse" }).click();
  await expect(tab.getByText("The authorization was refused.")).toBeVisible();
  expect(tickets.issued).toHaveLength(0);
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Begin again" }).click();
  await expect(dialog.getByRole("button", { name: "Begin again" })).toBeEnabled();
  const opened = context.waitForEvent("page");
  await dialog.getByRole("link", { name: "Continue at the service" }).click();
  const second = await opened;
  await second.getByRole("link", { name: "Allow" }).click();
  await expect(second.getByRole("heading", { name: "tickets is connected" })).toBeVisible();
  await expect(dialog.getByText("Connected.")).toBeVisible();
});

test("an answer with a state that nobody has begun connects nothing, and the right one still counts", async ({ page, context, server, tickets }) => {
  await enter(page, server);
  const tab = await begin(page, context, server);
  await tab.getByRole("link", { name: "Another state" }).click();
  await expect(tab.getByText("This address is unknown, was used before, or has expired.")).toBeVisible();
  expect(tickets.outside.requests.filter((r) => r.path === "/token")).toHaveLength(0);
  await page.keyboard.press("Escape");
  await expect(accounts(page)).toContainText("Not connected");
  await tab.goBack();
  await tab.getByRole("link", { name: "Allow" }).click();
  await expect(tab.getByRole("heading", { name: "tickets is connected" })).toBeVisible();
  await page.reload();
  await expect(accounts(page)).toContainText("Ready");
});

test("a service that oauth.json does not have is refused with a reason", async ({ page, server }) => {
  await enter(page, server);
  await page.goto(`${server.url}/ui/settings/connections`);
  await page.getByRole("button", { name: "Connect an account" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: /^Service/ }).fill("nobody");
  await dialog.getByRole("button", { name: "Begin", exact: true }).click();
  await expect(dialog.getByText(/it is not in the configuration of OAuth providers/)).toBeVisible();
  await expect(dialog.getByRole("link", { name: "Continue at the service" })).toHaveCount(0);
});
