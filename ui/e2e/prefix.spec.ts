import { createServer, request, type Server as Proxy } from "node:http";
import { connection, enter, expect, test } from "./rig";

const prefix = "/below/here";

// behind starts a proxy that serves a server below a path.
async function behind(port: number): Promise<{ proxy: Proxy; url: string }> {
  const proxy = createServer((req, res) => {
    if (!req.url?.startsWith(prefix + "/")) return void res.writeHead(404).end();
    const there = request({ port, host: "127.0.0.1", method: req.method, path: req.url.slice(prefix.length), headers: req.headers }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(res);
    });
    there.on("error", () => res.destroy());
    res.on("close", () => there.destroy());
    req.pipe(there);
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const address = proxy.address();
  return { proxy, url: `http://127.0.0.1:${typeof address === "object" && address ? address.port : 0}${prefix}` };
}

test("a deep link below a path of a proxy, in two tabs", async ({ page, server, context }) => {
  const id = await server.session("Below");
  const { proxy, url } = await behind(server.port);
  await page.goto(`${url}/`);
  await expect(page).toHaveURL(`${url}/ui/sessions`);
  await page.getByLabel("Token").fill(server.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("link", { name: /Below/ }).click();
  await expect(page).toHaveURL(`${url}/ui/sessions/${id}`);
  await page.reload();
  await expect(page.getByRole("heading", { name: "Below" })).toBeVisible();
  await expect(connection(page)).toHaveAttribute("data-state", "live");

  const other = await context.newPage();
  await other.goto(page.url());
  await page.getByLabel("Message").fill("hello");
  await page.keyboard.press("Enter");
  for (const tab of [page, other]) await expect(tab.getByText("Hello from the script.")).toBeVisible();
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Tasks" }).click();
  await page.goBack();
  await expect(page.getByRole("heading", { name: "Below" })).toBeVisible();
  await other.close();
  await page.goto("about:blank");
  proxy.closeAllConnections();
  proxy.close();
});

test("other servers on this machine do not share the sign-in", async ({ page, server }) => {
  await enter(page, server);
  const names = (await page.context().cookies()).map((c) => c.name);
  expect(names).toEqual([`perdure-${server.port}`]);
});
