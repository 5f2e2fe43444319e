import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { sections } from "../src/settings/sections";
import { models, Outside } from "./outside";
import { accessible, enter, expect, fits, picture, test } from "./rig";
import type { Server } from "./server";

// open goes to a section.
async function open(page: Page, server: Server, section: string, query = "") {
  await page.goto(`${server.url}/ui/settings/${section}${query}`);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
}

// signInAs signs the browser in with a token of some scopes.
async function signInAs(page: Page, server: Server, scopes: string[]) {
  const { token } = await server.api<{ token: string }>("POST", "/v1/tokens", { name: "limited", scopes });
  await page.goto(`${server.url}/ui/settings`);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("heading", { name: "Settings" })).toBeVisible();
}

// nowhere checks that a secret is neither on the page nor in what the browser keeps of it.
async function nowhere(page: Page, secret: string) {
  expect(await page.content()).not.toContain(secret);
  const inputs = await page.locator("input, textarea").evaluateAll((all) => all.map((e) => (e as HTMLInputElement).value).join(" "));
  expect(inputs).not.toContain(secret);
  expect(page.url()).not.toContain(secret);
  expect(await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage, state: history.state }))).not.toContain(secret);
}

test("each section at 1440 and 380 px, light and dark: axe, and nothing sticks out", async ({ page, server }) => {
  test.setTimeout(300_000);
  const session = await server.session("Has secrets");
  await server.api("POST", "/v1/tokens", { name: "nightly reports", scopes: ["read", "write"] });
  await server.api("PUT", "/v1/providers/house", { kind: "openai", base_url: "http://127.0.0.1:9/v1", key: "k", default_model: "small" });
  await server.api("PUT", "/v1/agents/reader", { system_prompt: "You read." });
  await server.api("POST", "/v1/webhooks", { url: "https://example.com/perdure" });
  await fetch(`${server.url}/v1/sessions/${session}/secrets/BANK_KEY`, {
    method: "PUT",
    headers: { Authorization: `Bearer ${server.token}`, "Content-Type": "application/json" },
    body: JSON.stringify({ value: "v", hosts: ["api.example.com"] }),
  });
  await server.cli("egress", "allow", "api.example.com");
  await enter(page, server);
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    for (const width of [1440, 380]) {
      await page.setViewportSize({ width, height: 900 });
      await page.goto(`${server.url}/ui/settings`);
      await expect(page.getByRole("heading", { name: "Settings" })).toBeVisible();
      await fits(page);
      await accessible(page);
      await picture(page, `settings-${width}-${colorScheme}`);
      for (const s of sections) {
        await open(page, server, s.id, s.id === "secrets" ? `?session=${session}` : "");
        await expect(page.getByText("Loading…")).toHaveCount(0);
        await fits(page);
        await accessible(page);
        await picture(page, `settings-${s.id}-${width}-${colorScheme}`);
      }
    }
  }
});

test("the keyboard leads from the list of sections to a section, and into a dialog and out of it", async ({ page, server }) => {
  await enter(page, server);
  await page.goto(`${server.url}/ui/settings`);
  await page.getByRole("link", { name: /^Tokens/ }).focus();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: "Tokens" })).toBeVisible();
  const create = page.getByRole("button", { name: "Create a token" });
  await create.focus();
  await page.keyboard.press("Enter");
  await expect(page.getByLabel("Name, for people")).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await expect(create).toBeFocused();
});

test("U-11: an unknown section, tool and session are friendly", async ({ page, server }) => {
  await enter(page, server);
  await page.goto(`${server.url}/ui/settings/nothing`);
  await expect(page.getByRole("heading", { name: "There is no such page" })).toBeVisible();
  await open(page, server, "tools", "?item=nothing");
  await expect(page.getByText("There is no such tool")).toBeVisible();
  await open(page, server, "secrets", "?session=session_00000000000070008000000000000000");
  await expect(page.getByText("There is no such session")).toBeVisible();
});

test("U-9: reload and back keep the filter and the chosen tool; a pure tool is called once", async ({ page, server }) => {
  await enter(page, server);
  await open(page, server, "tools");
  await page.getByLabel("Filter the tools").fill("add");
  await page.getByRole("link", { name: /add/i }).first().click();
  await expect(page).toHaveURL(/item=add/);
  await expect(page).toHaveURL(/q=add/);
  await page.reload();
  await expect(page.getByLabel("Filter the tools")).toHaveValue("add");
  await expect(page.getByLabel("Schema of the arguments")).toBeVisible();
  await page.goBack();
  await expect(page.getByLabel("Schema of the arguments")).toHaveCount(0);
  await open(page, server, "tools", "?item=multiply");
  await page.getByLabel("Arguments, as JSON").fill('{"a": 6, "b": 7');
  await expect(page.getByText(/This is not JSON/)).toBeVisible();
  await expect(page.getByRole("button", { name: "Call once" })).toBeDisabled();
  await page.getByLabel("Arguments, as JSON").fill('{"a": 6, "b": 7}');
  await expect(page.getByText(`perdure tool call multiply '{"a":6,"b":7}'`)).toBeVisible();
  await page.getByRole("button", { name: "Call once" }).click();
  await expect(page.getByLabel("Result of the call")).toContainText("42");
  await accessible(page);
});

test("an MCP server is asked, and one of its tools is called", async ({ page, server }) => {
  await server.kill();
  writeFileSync(
    join(server.home, "data", "mcp.json"),
    JSON.stringify({ mcpServers: { loud: { command: process.execPath, args: [join(import.meta.dirname, "mcp.mjs")], classes: { shout: "pure" } } } }),
  );
  await server.start();
  await enter(page, server);
  await open(page, server, "mcp", "?item=loud");
  await page.getByRole("button", { name: "Ask for its tools" }).click();
  await expect(page.getByText("Ready, 1 tool")).toBeVisible();
  await page.getByLabel("Call one of them").selectOption({ label: "loud__shout" });
  await page.getByLabel("Arguments, as JSON").fill('{"text": "quiet"}');
  await page.getByRole("button", { name: "Call once" }).click();
  await expect(page.getByLabel("Result of the call")).toContainText("QUIET");
  await expect(page.getByLabel("Block for a client on stdio")).toContainText(join(server.home, "data"));
  await accessible(page);
  await picture(page, "settings-mcp-call");
});

test("a provider is added, tested, made the default, changed and deleted", async ({ page, server }) => {
  const there = await Outside.start(models("right-key"));
  await enter(page, server);
  await open(page, server, "providers");
  await page.getByRole("button", { name: "Add a provider" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel(/^Name/).fill("house");
  await dialog.getByLabel(/^URL/).fill(`${there.url}/v1`);
  await dialog.getByLabel(/^Key/).fill("wrong-key");
  await dialog.getByLabel(/^Default model/).fill("small");
  await accessible(page);
  await page.getByRole("button", { name: "Store", exact: true }).click();
  await expect(page.getByRole("heading", { level: 2, name: "house" })).toBeVisible();
  await nowhere(page, "wrong-key");
  await page.getByRole("button", { name: "Ask for one word" }).click();
  await expect(page.getByText(/The provider refused: small/)).toBeVisible();

  await page.getByRole("region", { name: "The chosen provider" }).getByRole("button", { name: "Change…" }).click();
  await dialog.getByLabel(/^Key/).fill("right-key");
  await page.getByRole("button", { name: "Store", exact: true }).click();
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await page.getByRole("button", { name: "Ask for one word" }).click();
  await expect(page.getByText(/Works: small/)).toBeVisible();
  await nowhere(page, "right-key");
  await picture(page, "settings-provider");

  await page.getByRole("region", { name: "Default model" }).getByRole("button", { name: "Change…" }).click();
  await page.getByLabel("PROVIDER/MODEL").fill("house/small");
  await page.getByRole("button", { name: "Set", exact: true }).click();
  await expect(page.getByRole("button", { name: "Set", exact: true })).toHaveCount(0);
  expect(await server.cli("model", "list")).toContain("house/small");

  await page.getByRole("button", { name: "Delete…" }).click();
  await expect(page.getByRole("button", { name: "Delete provider and key" })).toBeDisabled();
  await page.getByLabel(/Type .* to confirm/).fill("house");
  await page.getByRole("button", { name: "Delete provider and key" }).click();
  await expect(page.getByRole("link", { name: /^house/ })).toHaveCount(0);
  there.stop();
});

test("a token is shown once, works, and is revoked", async ({ page, server }) => {
  await enter(page, server);
  await open(page, server, "tokens");
  await page.getByRole("button", { name: "Create a token" }).click();
  await page.getByLabel("Name, for people").fill("nightly reports");
  await page.getByRole("checkbox", { name: /^write/ }).uncheck();
  await expect(page.getByText("perdure token create 'nightly reports' --scope read")).toBeVisible();
  await accessible(page);
  await page.getByRole("button", { name: "Create", exact: true }).click();
  const secret = (await page.getByTestId("secret").locator("code").textContent())!;
  expect(secret).toMatch(/^perdure_/);
  await accessible(page);
  const ask = (path: string) => fetch(server.url + path, { headers: { Authorization: `Bearer ${secret}` } });
  expect((await ask("/v1/sessions")).status).toBe(200);
  expect((await ask("/v1/tokens")).status).toBe(403);
  await page.getByRole("button", { name: "I have stored it" }).click();
  await expect(page.getByTestId("secret")).toHaveCount(0);
  await nowhere(page, secret);

  await page.getByRole("button", { name: /^Revoke nightly reports/ }).click();
  await expect(page.getByRole("button", { name: "Revoke", exact: true })).toBeDisabled();
  await page.getByLabel(/Type .* to confirm/).fill("nightly reports");
  await page.getByRole("button", { name: "Revoke", exact: true }).click();
  await expect(page.getByRole("listitem").filter({ hasText: "nightly reports" })).toContainText("Revoked");
  expect((await ask("/v1/sessions")).status).toBe(401);
});

test("a webhook is created, pinged, sent again, rotated, disabled and deleted", async ({ page, server }) => {
  let status = 500;
  const there = await Outside.start((_path, _headers, res) => void res.writeHead(status).end());
  await server.cli("egress", "allow", "--webhook", `127.0.0.1:${there.port}`);
  await enter(page, server);
  await open(page, server, "webhooks");
  await page.getByRole("button", { name: "Create a webhook" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "URL" }).fill(`${there.url}/hook`);
  await dialog.getByLabel(/^Types/).fill("task.*");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  const secret = (await page.getByTestId("secret").locator("code").textContent())!;
  expect(secret).toMatch(/^whsec_/);
  await page.getByRole("button", { name: "I have stored it" }).click();
  await nowhere(page, secret);

  status = 204;
  await page.getByRole("button", { name: "Send a ping" }).click();
  const ping = page.getByRole("listitem").filter({ hasText: "1 attempt" });
  await expect(ping).toContainText("Delivered");
  await accessible(page);
  await picture(page, "settings-webhook");
  await ping.getByRole("button", { name: /again/ }).click();
  await page.getByRole("button", { name: "Send again", exact: true }).click();
  await expect.poll(() => there.requests.length).toBe(2);
  expect(there.requests[0]!.headers["webhook-id"]).toBe(there.requests[1]!.headers["webhook-id"]);

  await page.getByRole("button", { name: "Rotate the secret…" }).click();
  await page.getByRole("button", { name: "Rotate", exact: true }).click();
  const next = (await page.getByTestId("secret").locator("code").textContent())!;
  expect(next).toMatch(/^whsec_/);
  expect(next).not.toBe(secret);
  await page.getByRole("button", { name: "I have stored it" }).click();
  await nowhere(page, next);

  await page.getByRole("button", { name: "Disable…" }).click();
  await page.getByRole("button", { name: "Disable", exact: true }).click();
  await expect(page.getByRole("button", { name: "Enable…" })).toBeVisible();
  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByLabel(/Type .* to confirm/).fill(`127.0.0.1:${there.port}`);
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await expect(page.getByText("There is no webhook.")).toBeVisible();
  there.stop();
});

test("a secret is set, replaced and deleted, and its value is nowhere", async ({ page, server }) => {
  const session = await server.session("Bank");
  await enter(page, server);
  await open(page, server, "secrets");
  await page.getByLabel("Session").selectOption({ value: session });
  await page.getByRole("button", { name: "Set a secret" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "Name" }).fill("BANK_KEY");
  await dialog.getByLabel(/^Value/).fill("hunter2-canary");
  await dialog.getByLabel(/^Hosts/).fill("api.example.com");
  await page.getByRole("button", { name: "Store", exact: true }).click();
  const row = page.getByRole("listitem").filter({ hasText: "BANK_KEY" });
  await expect(row).toContainText("api.example.com");
  await expect(row).toContainText("never read");
  await nowhere(page, "hunter2-canary");
  await row.getByRole("button", { name: /Replace/ }).click();
  await dialog.getByLabel(/^Value/).fill("other-canary");
  await page.getByRole("button", { name: "Store", exact: true }).click();
  await expect(row).toContainText("version 2");
  await nowhere(page, "other-canary");
  await row.getByRole("button", { name: /Delete/ }).click();
  await page.getByLabel(/Type .* to confirm/).fill("BANK_KEY");
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await expect(page.getByText("This session has no secret.")).toBeVisible();
});

test("storage is measured and verified, a backup is known, and about names versions and licences", async ({ page, server }) => {
  await server.session("One");
  await server.cli("admin", "backup", join(server.home, "copy"));
  await enter(page, server);
  await open(page, server, "storage");
  await expect(page.getByText(join(server.home, "copy"))).toBeVisible();
  await page.getByRole("button", { name: "Verify now" }).click();
  await expect(page.getByTestId("verification")).toContainText("Intact");
  await expect(page.getByText(/1 session, /)).toBeVisible();
  await open(page, server, "about");
  await expect(page.getByText("SQLite", { exact: true })).toBeVisible();
  await expect(page.getByRole("list", { name: "Findings of doctor" }).getByText("data directory")).toBeVisible();
  await page.getByRole("button", { name: "Show the licences" }).click();
  await expect(page.getByRole("list", { name: "Packages" })).toContainText(/react - 19.* \(MIT\)/);
});

test("what was done is in the audit log, the newest first; rules and denials are in egress", async ({ page, server }) => {
  await server.cli("egress", "deny", "evil.example");
  const session = await server.session("Fetches");
  await server.api("POST", `/v1/sessions/${session}/calls`, { tool: "web_fetch", args: { url: "http://169.254.169.254/latest" } });
  await enter(page, server);
  await open(page, server, "egress");
  await expect(page.getByRole("list", { name: "Rules" })).toContainText("evil.example");
  await expect(page.getByRole("list", { name: /denial/ })).toContainText("169.254.169.254");
  await page.getByRole("link", { name: /^session/ }).click();
  await expect(page.getByRole("heading", { name: "Fetches" })).toBeVisible();
  await open(page, server, "audit");
  await page.getByLabel("Actions").selectOption("egress.*");
  await page.getByRole("link", { name: /egress\.denied/ }).first().click();
  await expect(page.getByRole("heading", { name: "egress.denied" })).toBeVisible();
});

test("an agent is shown with its versions, and deleted", async ({ page, server }) => {
  await server.api("PUT", "/v1/agents/reader", { system_prompt: "You read the first." });
  await fetch(`${server.url}/v1/agents/reader`, {
    method: "PUT",
    headers: { Authorization: `Bearer ${server.token}`, "Content-Type": "application/json", "If-Match": "*" },
    body: JSON.stringify({ system_prompt: "You read the second." }),
  });
  await enter(page, server);
  await open(page, server, "agents");
  await page.getByRole("link", { name: /reader/ }).click();
  await expect(page.getByLabel("Effective agent")).toContainText("the second");
  await page.getByLabel("Stored text of version").selectOption({ value: "1" });
  await expect(page.getByLabel("Version 1", { exact: true })).toContainText("the first");
  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByLabel(/Type .* to confirm/).fill("reader");
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await expect(page.getByRole("link", { name: /reader/ })).toContainText("Deleted");
});

test("an account is connected with a token, and disconnected", async ({ page, server }) => {
  await enter(page, server);
  await open(page, server, "connections");
  await page.getByRole("button", { name: "With a token" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "Service" }).fill("gitlab");
  await dialog.getByLabel(/^Token/).fill("glpat-canary");
  await dialog.getByLabel(/^Hosts/).fill("gitlab.com");
  await page.getByRole("button", { name: "Store", exact: true }).click();
  await page.getByRole("link", { name: /gitlab/ }).click();
  await nowhere(page, "glpat-canary");
  await page.getByRole("button", { name: "Test", exact: true }).click();
  await expect(page.getByRole("status").filter({ hasText: "Ready" })).toBeVisible();
  await page.getByRole("button", { name: "Disconnect…" }).click();
  await page.getByLabel(/Type .* to confirm/).fill("gitlab");
  await page.getByRole("button", { name: "Disconnect", exact: true }).click();
  await expect(page.getByText("You have connected no account.")).toBeVisible();
});

test("a token that only reads sees no action, and each section says which scope it needs", async ({ page, server }) => {
  const session = await server.session("Mine");
  await server.api("PUT", "/v1/agents/reader", { system_prompt: "You read." });
  await signInAs(page, server, ["read"]);
  for (const s of sections) {
    await open(page, server, s.id, s.id === "secrets" ? `?session=${session}` : s.id === "tools" ? "?item=add" : s.id === "agents" ? "?item=reader" : "");
    await expect(page.getByText("Loading…")).toHaveCount(0);
    const main = page.getByRole("main");
    if (s.scope === "admin") await expect(main.getByText('Your token "limited" does not have the scope admin.')).toBeVisible();
    const buttons = await main.getByRole("button").allTextContents();
    expect(
      buttons.filter((b) => !/^(Copy|Show)/.test(b)),
      s.id,
    ).toEqual([]);
  }
  await page.goto(`${server.url}/ui/settings`);
  await expect(page.getByRole("link", { name: /Tokens/ })).toContainText("needs admin");
  await picture(page, "settings-read-only");
});
