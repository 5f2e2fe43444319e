import { join } from "node:path";
import type { Page } from "@playwright/test";
import { Outside } from "./outside";
import { accessible, enter, expect, fits, picture, test as base } from "./rig";
import { Server } from "./server";

const payee = "news.example.com";

// shop is a server whose agent buys for 0.75 usd from a wallet on this machine.
type Shop = { server: Server; wallet: Outside; answers: { now: "takes" | "refuses" | "says nothing" } };

const test = base.extend<{ shop: Shop }>({
  // eslint-disable-next-line no-empty-pattern
  shop: async ({}, use) => {
    const answers: Shop["answers"] = { now: "takes" };
    const wallet = await Outside.start((_path, _headers, res) => {
      if (answers.now === "says nothing") return void res.destroy();
      if (answers.now === "refuses") return void res.writeHead(402).end("no money left");
      res.end("receipt 12");
    });
    const server = await Server.start("payment.yaml", {
      "mcp.json": JSON.stringify({
        mcpServers: { loud: { command: process.execPath, args: [join(import.meta.dirname, "mcp.mjs")], prices: { shout: { amount: "0.75", currency: "usd", host: payee } } } },
      }),
      "payments.json": JSON.stringify({
        wallet: { url: `${wallet.url}/pay` },
        capabilities: ["mcp_loud"],
        hosts: [payee],
        caps: { usd: { per_request: "1", per_turn: "1", per_day: "2", approve_above: "0.50" } },
      }),
    });
    await use({ server, wallet, answers });
    await server.stop();
    wallet.stop();
  },
});

// asking starts the server anew so that a person approves each call of the tool with a price.
async function asking(server: Server) {
  await server.kill();
  server.flags.push("--ask", "loud__shout");
  await server.start();
}

// buy lets the agent of a new session buy.
async function buy(server: Server, title: string): Promise<string> {
  const { id } = await server.api<{ id: string }>("POST", "/v1/sessions", { agent: { name: "buyer", capabilities: ["mcp_loud"] }, title });
  await server.say(id, "buy");
  return id;
}

// question opens the question of a session in the inbox.
async function question(page: Page, server: Server, title: string) {
  await page.goto(`${server.url}/ui/approvals`);
  await page.getByRole("list", { name: "Open approvals" }).getByRole("link", { name: new RegExp(title) }).click();
  return page.getByTestId("approval");
}

const payments = (page: Page) => page.getByRole("list", { name: /^\d+ payments?$/ }).getByRole("listitem");

test("a payment that a person approves: amount and payee are in the question, and then in the settings", async ({ page, shop }) => {
  test.setTimeout(300_000);
  const { server, wallet } = shop;
  await asking(server);
  await buy(server, "Morning news");
  await enter(page, server, "settings/payments");
  await expect(page.getByText("No tool has paid.")).toBeVisible();
  const card = await question(page, server, "Morning news");
  await expect(card).toContainText(`0.75 usd to ${payee}`);
  await expect(card).toContainText("Must not happen twice");
  expect(wallet.requests).toHaveLength(0);
  await page.setViewportSize({ width: 380, height: 800 });
  await fits(page);
  await accessible(page);
  await picture(page, "payment-question-380");
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.keyboard.press("a");
  await page.getByLabel(/type the name of the tool/).fill("loud__shout");
  await page.keyboard.press("Enter");
  await expect(page.getByTestId("decided")).toContainText("Approved");

  await page.goto(`${server.url}/ui/settings/payments`);
  await expect(payments(page)).toHaveCount(1);
  await expect(payments(page)).toContainText(`0.75 usd to ${payee}`);
  await expect(payments(page)).toContainText("Paid");
  await payments(page).getByRole("link").click();
  const chosen = page.getByRole("region", { name: "The chosen payment" });
  await expect(chosen).toContainText("receipt 12");
  await expect(chosen).toContainText("Approved by");
  expect(wallet.requests).toHaveLength(1);
  await expect(chosen).toContainText(String(wallet.requests[0]!.headers["idempotency-key"]));
  await page.reload();
  await expect(chosen).toContainText("receipt 12");
  await accessible(page);
  await picture(page, "settings-payment");
  await chosen.getByRole("link", { name: /^session_/ }).click();
  await expect(page.getByText(/The result is .*NEWS/)).toBeVisible();
});

test("a payment that a person refuses is not made", async ({ page, shop }) => {
  const { server, wallet } = shop;
  await asking(server);
  const session = await buy(server, "Evening news");
  await enter(page, server);
  await question(page, server, "Evening news");
  await page.getByRole("button", { name: "Deny…" }).click();
  await page.getByRole("button", { name: "Deny", exact: true }).click();
  await expect(page.getByTestId("decided")).toContainText("Denied");
  await page.goto(`${server.url}/ui/sessions/${session}`);
  await expect(page.getByText(/^The result is/)).toBeVisible();
  await page.goto(`${server.url}/ui/settings/payments`);
  await expect(page.getByText("No tool has paid.")).toBeVisible();
  expect(wallet.requests).toHaveLength(0);
});

test("a payment above the limit for which nobody asked is not made, and the transcript says why", async ({ page, shop }) => {
  const { server, wallet } = shop;
  const session = await buy(server, "Unasked");
  await enter(page, server, `sessions/${session}`);
  await expect(page.getByText(/The result is .*approval_required/)).toBeVisible();
  expect(wallet.requests).toHaveLength(0);
});
