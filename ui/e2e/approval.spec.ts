import type { Page } from "@playwright/test";
import { accessible, connection, enter, expect, fits, picture, test } from "./rig";
import { bulk, rows as documentRows } from "./scale";
import type { Server } from "./server";

// asking starts a session in which every call of some tools needs an approval.
async function asking(server: Server, title: string): Promise<string> {
  const tools = ["bash", "write_file", "edit_file", "web_fetch", "echo"];
  const permissions = tools.map((target) => ({ kind: "tool", target, decision: "ask" }));
  return (await server.api<{ id: string }>("POST", "/v1/sessions", { agent: { name: "helper", tools, permissions }, title })).id;
}

// ask calls a tool, and returns the approval that this needs.
async function ask(server: Server, session: string, tool: string, args: unknown): Promise<string> {
  await server.api("POST", `/v1/sessions/${session}/calls`, { tool, args });
  const { items } = await server.api<{ items: { id: string }[] }>("GET", `/v1/approvals?session=${session}&order=newest&limit=1`);
  return items[0]!.id;
}

const rows = (page: Page) => page.getByRole("list", { name: "Open approvals" }).getByRole("link");
const card = (page: Page) => page.getByTestId("approval");

test("U-13: what must not happen twice comes first, then what waits longest, and the selection stays while others arrive", async ({ page, server }) => {
  const id = await asking(server, "Cleaning");
  await ask(server, id, "echo", { message: "first" });
  const second = await ask(server, id, "echo", { message: "second" });
  await enter(page, server, "approvals");
  await expect(rows(page)).toHaveCount(2);
  await expect(rows(page).first()).toContainText("first");
  await rows(page).nth(1).click();
  await expect(page).toHaveURL(new RegExp(second));
  await ask(server, id, "bash", { command: "rm -r build" });
  await expect(rows(page)).toHaveCount(3);
  await expect(rows(page).first()).toContainText("Must not happen twice");
  await expect(rows(page).nth(2)).toHaveAttribute("aria-current", "page");
  await expect(card(page)).toContainText("second");
});

test("a call that must not happen twice is approved by typing, never with one key", async ({ page, server }) => {
  const id = await asking(server, "Danger");
  const approval = await ask(server, id, "bash", { command: "echo ran > ran.txt" });
  await enter(page, server, `approvals?id=${approval}`);
  await expect(page.getByLabel("Command", { exact: true })).toHaveText("echo ran > ran.txt");
  await page.keyboard.press("a");
  const word = page.getByLabel(/type the name of the tool/);
  await expect(word).toBeFocused();
  await page.keyboard.press("Enter");
  await page.keyboard.type("bas");
  await page.keyboard.press("Enter");
  await expect(card(page)).toHaveAttribute("data-state", "open");
  await picture(page, "approval-typed");
  await page.keyboard.type("h");
  await page.keyboard.press("Enter");
  await expect(page.getByTestId("decided")).toContainText("Approved");
});

test("U-13: a write is shown as the difference to the file as it is, and an edit that cannot work says so", async ({ page, server }) => {
  const id = await asking(server, "Notes");
  const put = await fetch(`${server.url}/v1/sessions/${id}/files/notes.md`, {
    method: "PUT",
    headers: { Authorization: `Bearer ${server.token}`, "Content-Type": "application/octet-stream" },
    body: "one\ntwo\nthree\n",
  });
  expect(put.ok).toBe(true);
  const write = await ask(server, id, "write_file", { path: "/notes.md", content: "one\n2\nthree\n" });
  await enter(page, server, `approvals?id=${write}`);
  const difference = page.getByRole("region", { name: "Difference" });
  await expect(difference.locator('[data-kind="old"]')).toContainText("two");
  await expect(difference.locator('[data-kind="new"]')).toContainText("2");
  await expect(page.getByText("+1 added")).toBeVisible();
  await accessible(page);
  await picture(page, "approval-diff");
  const edit = await ask(server, id, "edit_file", { path: "/notes.md", old_text: "four", new_text: "4" });
  await page.goto(`${server.url}/ui/approvals?id=${edit}`);
  await expect(page.getByText("as it is now, the call will fail")).toBeVisible();
  const fresh = await ask(server, id, "write_file", { path: "/new.md", content: "hello\n" });
  await page.goto(`${server.url}/ui/approvals?id=${fresh}`);
  await expect(page.getByText(/^New file/)).toBeVisible();
});

test("a call to the network names its host, as it would be reached", async ({ page, server }) => {
  const id = await asking(server, "Network");
  const approval = await ask(server, id, "web_fetch", { url: "https://user:secret@xn--pypal-4ve.example:8443/paypal.com" });
  await enter(page, server, `approvals?id=${approval}`);
  await expect(page.getByText(/^Goes to/)).toHaveText("Goes to xn--pypal-4ve.example:8443");
});

test("by keyboard only: next, previous, deny with a note, approve", async ({ page, server }) => {
  const id = await asking(server, "Keys");
  await ask(server, id, "echo", { message: "first" });
  await ask(server, id, "echo", { message: "second" });
  await enter(page, server, "approvals");
  await expect(card(page)).toContainText("first");
  await page.keyboard.press("j");
  await expect(card(page)).toContainText("second");
  await page.keyboard.press("k");
  await expect(card(page)).toContainText("first");
  await page.keyboard.press("d");
  await expect(page.getByLabel("What the model reads instead of a result")).toBeFocused();
  await page.keyboard.type("a job for jkard"); // keys of the page, which do nothing while somebody types
  await page.keyboard.press("Enter");
  await expect(page.getByTestId("decided")).toContainText("Denied");
  await expect(page.getByTestId("decided")).toContainText("a job for jkard");
  await expect(rows(page)).toHaveCount(1);
  await page.keyboard.press("a"); // the card is decided: the key must not reach the next one
  await page.keyboard.press("j");
  await expect(card(page)).toContainText("second");
  await expect(card(page)).toHaveAttribute("data-state", "open");
  await expect(page.getByLabel("Exact arguments")).toBeVisible();
  await page.keyboard.press("a");
  await expect(page.getByTestId("decided")).toContainText("Approved");
  await expect(rows(page)).toHaveCount(0);
});

test("single keys can be switched off, and those that lead to a page decide nothing", async ({ page, server }) => {
  const id = await asking(server, "Keys off");
  const approval = await ask(server, id, "echo", { message: "first" });
  await enter(page, server, `approvals?id=${approval}`);
  await expect(page.getByLabel("Exact arguments")).toBeVisible();
  await page.keyboard.press("g");
  await page.keyboard.press("a");
  await expect(page).toHaveURL(/approvals/);
  await page.goto(`${server.url}/ui/approvals?id=${approval}`);
  await expect(page.getByLabel("Exact arguments")).toBeVisible();
  await expect(card(page)).toHaveAttribute("data-state", "open");
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog")).toContainText("Deny with a note");
  await page.getByRole("checkbox", { name: /single key/ }).uncheck();
  await page.getByRole("button", { name: "Close" }).click();
  await page.keyboard.press("a");
  await page.keyboard.press("d");
  await expect(page.getByRole("button", { name: "Approve once" })).toBeVisible();
  await expect(card(page)).toHaveAttribute("data-state", "open");
});

test("of two persons who decide at once, the second is told who decided", async ({ page, server, browser }) => {
  const id = await asking(server, "Two");
  const approval = await ask(server, id, "echo", { message: "which?" });
  await enter(page, server, `approvals?id=${approval}`);
  await expect(page.getByLabel("Exact arguments")).toContainText("which?");
  const other = await browser.newPage();
  await enter(other, server, `approvals?id=${approval}`);
  await expect(other.getByLabel("Exact arguments")).toContainText("which?");
  // the stream and the reads of the second page do not arrive, so it still offers the decision
  let sent = false;
  await other.route(/\/v1\/(events|approvals)/, async (route) => {
    if (route.request().method() === "POST") sent = true;
    if (sent) await route.continue();
    else await route.abort();
  });
  await page.getByRole("button", { name: "Deny…" }).click();
  await page.getByLabel("What the model reads").fill("not today");
  await page.getByRole("button", { name: "Deny", exact: true }).click();
  await expect(page.getByTestId("decided")).toContainText("Denied");
  await other.getByRole("button", { name: "Approve once" }).click();
  await expect(other.getByTestId("decided")).toContainText("Somebody decided before you");
  await expect(other.getByTestId("decided")).toContainText(/Denied.*by .+ at .*not today/s);
  await picture(other, "approval-second");
  await other.close();
});

test("a card that somebody else decides says so, and does not become the next one", async ({ page, server }) => {
  const id = await asking(server, "Elsewhere");
  const one = await ask(server, id, "echo", { message: "one" });
  await ask(server, id, "echo", { message: "two" });
  await enter(page, server, "approvals");
  await expect(card(page)).toContainText("one");
  await server.api("POST", `/v1/approvals/${one}/deny`, { note: "by the other shift" });
  await expect(page.getByTestId("decided")).toContainText("by the other shift");
  await expect(page).toHaveURL(new RegExp(one));
  await page.getByRole("link", { name: "Next question" }).click();
  await expect(card(page)).toContainText("two");
});

test("U-13: one decision for questions that are equal byte for byte, and for no others", async ({ page, server }) => {
  const id = await asking(server, "Equal");
  const one = await ask(server, id, "echo", { message: "same" });
  await ask(server, id, "echo", { message: "same" });
  await ask(server, id, "echo", { message: "Same" });
  await enter(page, server, `approvals?id=${one}`);
  await expect(page.getByRole("button", { name: "Approve all 2 equal ones" })).toBeVisible();
  await page.keyboard.press("r");
  await expect(page.getByTestId("decided")).toContainText("counts for 2 questions");
  await expect(rows(page)).toHaveCount(1);
  await expect(rows(page)).toContainText("Same");
  await page.getByRole("link", { name: "Decided" }).click();
  await expect(page.getByRole("region", { name: "Decided approvals" }).getByRole("link")).toHaveCount(2);
  await page.getByRole("region", { name: "Decided approvals" }).getByRole("link").first().click();
  await expect(page.getByTestId("decided")).toContainText("Approved");
  await accessible(page);
  await picture(page, "approval-decided");
});

test("hostile text in a question is text: it hides nothing, and moves nothing", async ({ page, server }) => {
  await page.setViewportSize({ width: 380, height: 800 });
  const id = await asking(server, "<img src=x onerror=\"document.title='pwned'\">\u202eevil");
  const deep = JSON.parse('{"a":'.repeat(60) + "1" + "}".repeat(60)) as unknown;
  const approval = await ask(server, id, "bash", {
    command: "echo \u001b[31m\u202egpj.exe\u200b <script>document.title='pwned'</script> javascript:alert(1)" + "x".repeat(3000) + " && rm -r important",
  });
  await enter(page, server, `approvals?id=${approval}`);
  const command = page.getByLabel("Command", { exact: true });
  await expect(command).toContainText("\\u001b[31m\\u202egpj.exe\\u200b <script>");
  await expect(command).toContainText("&& rm -r important"); // the end is there as well
  await expect(card(page).locator("script, img, a[href^='javascript']")).toHaveCount(0);
  await expect(card(page).getByRole("link", { name: /evil/ })).toBeVisible();
  await fits(page);
  await accessible(page);
  await picture(page, "approval-hostile-380");
  const nested = await ask(server, id, "bash", { command: "true", environment: deep }).catch(() => "");
  if (nested) {
    await page.goto(`${server.url}/ui/approvals?id=${nested}`);
    await expect(page.getByLabel("Exact arguments")).toBeVisible();
    await fits(page);
  }
  expect(await page.title()).not.toContain("pwned");
});

test("numbers and members are shown as they were sent", async ({ page, server }) => {
  const id = await asking(server, "Exact");
  const res = await fetch(`${server.url}/v1/sessions/${id}/calls`, {
    method: "POST",
    headers: { Authorization: `Bearer ${server.token}`, "Content-Type": "application/json" },
    body: '{"tool":"echo","args":{"message":"pay 12345678901234567890"}}',
  });
  expect(res.ok).toBe(true);
  await enter(page, server, "approvals");
  await expect(page.getByLabel("Exact arguments")).toContainText("12345678901234567890");
  await page.getByRole("button", { name: "Raw" }).click();
  await expect(page.getByLabel("Exact arguments")).toHaveText('{"message":"pay 12345678901234567890"}');
});

test("a person who may not decide sees the question and why, and an unknown id gets a friendly page", async ({ page, server }) => {
  const id = await asking(server, "Read only");
  const approval = await ask(server, id, "echo", { message: "look" });
  const { token } = await server.api<{ token: string }>("POST", "/v1/tokens", { name: "looker", scopes: ["read"] });
  await page.goto(`${server.url}/ui/approvals?id=${approval}`);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByText('Your token "looker" does not have the scope approve.')).toBeVisible();
  await expect(page.getByRole("button", { name: /Approve|Deny/ })).toHaveCount(0);
  await page.goto(`${server.url}/ui/approvals?id=appr_00000000000000000000000000000000`);
  await expect(page.getByRole("heading", { name: "There is no such approval" })).toBeVisible();
  await accessible(page);
});

test("U-9: reload, back and forward keep tab and selection", async ({ page, server }) => {
  const id = await asking(server, "Places");
  const one = await ask(server, id, "echo", { message: "one" });
  const two = await ask(server, id, "echo", { message: "two" });
  await enter(page, server, `approvals?id=${one}`);
  await rows(page).nth(1).click();
  await expect(page).toHaveURL(new RegExp(two));
  await page.getByRole("link", { name: "Decided" }).click();
  await expect(page.getByText("Nothing was decided yet.")).toBeVisible();
  await page.goBack();
  await expect(card(page)).toContainText("two");
  await page.reload();
  await expect(card(page)).toContainText("two");
  await page.goForward();
  await expect(page.getByText("Nothing was decided yet.")).toBeVisible();
});

for (const scheme of ["light", "dark"] as const) {
  for (const width of [380, 1440]) {
    test(`approvals at ${width} px, ${scheme}`, async ({ page, server }) => {
      await page.emulateMedia({ colorScheme: scheme });
      await page.setViewportSize({ width, height: 900 });
      await enter(page, server, "approvals");
      await expect(page.getByText("Nothing waits for you")).toBeVisible();
      await accessible(page);
      const id = await asking(server, "Move the invoices of March to the archive, and tell the customers");
      await ask(server, id, "echo", { message: "a short call" });
      await ask(server, id, "write_file", { path: "/invoices/march.csv", content: "number,amount\n2026-031,120.00\n" });
      const approval = await ask(server, id, "bash", { command: "mv invoices/2026-03-*.pdf archive/\nfor f in archive/*.pdf; do mail -s 'Your invoice' customers@example.com < \"$f\"; done" });
      await expect(rows(page)).toHaveCount(3);
      await picture(page, `approvals-list-${scheme}-${width}`);
      await page.goto(`${server.url}/ui/approvals?id=${approval}`);
      await expect(page.getByLabel("Command", { exact: true })).toBeVisible();
      await expect(connection(page)).toHaveAttribute("data-state", "live");
      await fits(page);
      await accessible(page);
      await picture(page, `approvals-${scheme}-${width}`);
    });
  }
}

test("each of many open approvals is reached by scrolling and by keys, with at most 300 rows in the document", async ({ page, server }) => {
  test.setTimeout(300_000);
  const began = Date.now();
  const many = 260; // the stream has the newest 200
  const sessions = await Promise.all(Array.from({ length: 10 }, (_, i) => asking(server, `Session ${i}`)));
  const call = (n: number, tool: string, args: unknown) => server.api("POST", `/v1/sessions/${sessions[n % sessions.length]}/calls`, { tool, args });
  await call(0, "bash", { command: "echo the oldest" });
  await bulk(many - 2, 8, (i) => call(i, "echo", { message: `Question ${i}` }));
  await call(1, "bash", { command: "echo the newest" });
  console.log(`asked after ${Date.now() - began} ms`);
  await enter(page, server, "approvals");
  await expect(page.getByRole("link", { name: `Open ${many}` })).toBeVisible();
  await expect(rows(page).first()).toContainText("the oldest"); // it must not happen twice, and waits longest
  await expect(rows(page).nth(1)).toContainText("the newest");

  const seen = new Set<string>();
  const list = page.getByRole("region", { name: "List of open approvals" });
  await expect
    .poll(
      async () => {
        for (const text of await rows(page).allInnerTexts()) seen.add(/Question \d+|the \w+est/.exec(text)?.[0] ?? text);
        await list.evaluate((el) => (el.scrollTop += el.clientHeight));
        expect(await documentRows(page)).toBeLessThanOrEqual(300);
        return seen.size;
      },
      { timeout: 120_000, intervals: [60] },
    )
    .toBe(many);

  // Keys go on beyond the end of what was read first, and the address has the selection.
  await page.reload();
  await expect(rows(page).first()).toContainText("the oldest");
  await page.getByRole("heading", { name: "Approvals" }).click();
  for (let i = 0; i < 105; i++) await page.keyboard.press("j");
  const chosen = page.locator(".question[aria-current=page]");
  await expect(chosen).toBeInViewport();
  const text = (await chosen.innerText()).match(/Question \d+/)![0];
  await expect(card(page)).toContainText(text);
  await page.reload();
  await expect(card(page)).toContainText(text);

  // A question that the stream does not have, decided by somebody else, leaves the list.
  const { items } = await server.api<{ items: { id: string; tool: string }[] }>("GET", "/v1/approvals?state=open&order=risk&limit=5");
  const gone = items.find((a) => a.tool === "echo")!.id;
  await page.goto(`${server.url}/ui/approvals`);
  await expect(page.locator(`a.question[href*="${gone}"]`)).toBeVisible();
  await server.api("POST", `/v1/approvals/${gone}/deny`, {});
  await expect(page.locator(`a.question[href*="${gone}"]`)).toHaveCount(0);
  await expect(page.getByRole("link", { name: `Open ${many - 1}` })).toBeVisible();
});
