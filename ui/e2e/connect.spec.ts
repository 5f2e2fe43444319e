import type { BrowserContext, Page } from "@playwright/test";
import { proxied } from "./proxy";
import { accessible, enter, expect, fits, picture, test as base } from "./rig";
import { Server } from "./server";
import { service, type Service } from "./service";

// configure writes oauth.json, which has one service. base is the address of the server in the browser.
const configure = (server: Server, tickets: Service, base = server.url) =>
  server.write(
    "oauth.json",
    JSON.stringify({
      redirect_url: `${base}/v1/connections/callback`,
      providers: { tickets: { authorize_url: `${tickets.outside.url}/authorize`, token_url: `${tickets.outside.url}/token`, client_id: "app", scopes: ["read"], hosts: ["127.0.0.1"] } },
    }),
  );

// test has a server with an MCP server whose calls carry the token of an account, which is not connected. closed says
// that the MCP server shows its tools to nobody without an account.
const test = base.extend<{ closed: boolean; tickets: Service; server: Server }>({
  closed: [false, { option: true }],
  tickets: async ({ closed }, use) => {
    const tickets = await service(closed);
    await use(tickets);
    tickets.outside.stop();
  },
  server: async ({ tickets }, use) => {
    const { url, port } = tickets.outside;
    const server = await Server.start("connect.yaml", {
      "mcp.json": JSON.stringify({ mcpServers: { desk: { url: `${url}/mcp`, headers: { Authorization: "Bearer connection:tickets" }, classes: { open: "pure" } } } }),
    });
    await server.cli("egress", "allow", "--private", `127.0.0.1:${port}`);
    configure(server, tickets);
    await use(server);
    await server.stop();
  },
});

const accounts = (page: Page) => page.getByRole("list", { name: "Accounts that the server needs" });

// begin opens the MCP server in the settings and begins to connect its account. It returns the tab of the service.
async function begin(page: Page, context: BrowserContext, server: { url: string }): Promise<Page> {
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

// connect allows the access at the service, and sees the tools of the MCP server appear on its page.
async function connect(page: Page, tab: Page) {
  const tools = page.getByRole("link", { name: "desk__open", exact: true });
  await expect(tools).toHaveCount(0);
  await tab.getByRole("link", { name: "Allow" }).click();
  await expect(tab.getByRole("heading", { name: "tickets is connected" })).toBeVisible();
  await expect(page.getByRole("dialog").getByText("Connected.")).toBeVisible();
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
  await expect(accounts(page)).toContainText("Ready");
  await expect(page.getByRole("button", { name: "Connect…" })).toHaveCount(0);
  await expect(tools).toBeVisible();
}

// callOnce makes a test call of the tool, whose result names the token of the caller.
async function callOnce(page: Page) {
  await page.getByLabel("Call one of them").selectOption("desk__open");
  await page.getByRole("button", { name: "Call once" }).click();
  await expect(page.getByLabel("Result of the call")).toContainText("3 tickets are open");
  expect(await page.content()).not.toContain("canary");
}

test.describe("an MCP server that shows its tools to nobody without an account", () => {
  test.use({ closed: true });

  test("is connected from its page: its tools are there, and a call carries the token of its caller only", async ({ page, context, server, tickets }) => {
    await enter(page, server);
    await page.goto(`${server.url}/ui/settings/mcp`);
    await page.getByRole("link", { name: /^desk/ }).click();
    await page.getByRole("button", { name: "Ask for its tools" }).click();
    await expect(page.getByRole("status").filter({ hasText: "Unreachable" })).toBeVisible();
    await accessible(page);
    await page.setViewportSize({ width: 380, height: 800 });
    await fits(page);
    await picture(page, "settings-mcp-account-380");
    await page.setViewportSize({ width: 1440, height: 900 });

    const tab = await begin(page, context, server);
    await accessible(page);
    await picture(page, "settings-mcp-connect");
    await connect(page, tab);
    await callOnce(page);
    expect(tickets.calls).toEqual([`Bearer ${tickets.issued[0]}`]);
    await picture(page, "settings-mcp-call");

    // Another user of the server does not call with this account.
    const other = await server.api<{ token: string }>("POST", "/v1/tokens", { name: "bob", user: "bob", scopes: ["read", "write"] });
    const res = await fetch(`${server.url}/v1/tools/desk__open/call`, {
      method: "POST",
      headers: { Authorization: `Bearer ${other.token}`, "Content-Type": "application/json" },
      body: JSON.stringify({ args: {} }),
    });
    expect(await res.text()).toContain("connection_required");
    expect(tickets.calls).toHaveLength(1);

    await page.reload();
    await expect(accounts(page)).toContainText("Ready");
    await accounts(page).getByRole("link", { name: "tickets" }).click();
    const account = page.getByRole("region", { name: "The chosen account" });
    await expect(account).toContainText("127.0.0.1");
    await expect(account).toContainText("read");
    expect(await page.content()).not.toContain("canary");

    await tab.goBack();
    await tab.getByRole("link", { name: "Allow" }).click(); // the same answer again
    await expect(tab.getByRole("heading", { name: "Not connected" })).toBeVisible();
    expect(tickets.issued).toHaveLength(1);
  });

  test("is connected below a path of a proxy, where the service sends the browser back to", async ({ page, context, server, tickets }) => {
    const proxy = await proxied(server.port, "/below/here");
    configure(server, tickets, proxy.url);
    await page.goto(`${proxy.url}/`);
    await page.getByLabel("Token").fill(server.token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await expect(page.getByRole("heading", { name: "Sessions" })).toBeVisible();
    const tab = await begin(page, context, proxy);
    await connect(page, tab);
    expect(tab.url()).toContain(`${proxy.url}/v1/connections/callback?`);
    await callOnce(page);
    expect(tickets.calls).toEqual([`Bearer ${tickets.issued[0]}`]);
    await page.goto("about:blank");
    proxy.close();
  });
});

test("a session that waits for the account continues once it is connected, and its call carries the token", async ({ page, context, server, tickets }) => {
  const session = (await server.api<{ id: string }>("POST", "/v1/sessions", { agent: { name: "clerk", capabilities: ["mcp_desk"], client_connections: true }, title: "Desk" })).id;
  await server.say(session, "count");
  await expect.poll(async () => (await server.api<{ state: string }>("GET", `/v1/sessions/${session}`)).state).toBe("waiting_for_tool_results");
  await enter(page, server);
  const tab = await begin(page, context, server);
  await tab.getByRole("link", { name: "Allow" }).click();
  await expect(tab.getByRole("heading", { name: "tickets is connected" })).toBeVisible();
  await page.goto(`${server.url}/ui/sessions/${session}`);
  await expect(page.getByText(/The result is .*3 tickets are open/)).toBeVisible();
  expect(tickets.calls.at(-1)).toBe(`Bearer ${tickets.issued[0]}`);
  expect(await page.content()).not.toContain("canary");
});
