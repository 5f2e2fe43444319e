import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connection, expect, test } from "./rig";

const repository = join(import.meta.dirname, "..", "..");

// location returns the configuration of docs/how-to/behind-nginx.md for a path, for the port of a server.
function location(port: number): string {
  const page = readFileSync(join(repository, "docs", "how-to", "behind-nginx.md"), "utf8");
  const found = [...page.matchAll(/^```nginx\n(location [^]*?)^```$/gm)].map((m) => m[1]!);
  expect(found, "the configuration of the page for a path").toHaveLength(1);
  return found[0]!.replaceAll("127.0.0.1:7373", `127.0.0.1:${port}`);
}

// Nginx is a real nginx in the foreground, without root.
class Nginx {
  private readonly dir = mkdtempSync(join(tmpdir(), "perdure-nginx-"));
  private child: ChildProcess | undefined;
  url = "";

  async start(body: string) {
    const probe = createServer();
    const port = await new Promise<number>((resolve) => probe.listen(0, "127.0.0.1", () => resolve((probe.address() as { port: number }).port)));
    await new Promise((resolve) => probe.close(resolve));
    const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${this.dir}/${name};`).join(" ");
    const file = join(this.dir, "nginx.conf");
    writeFileSync(
      file,
      `daemon off; worker_processes 1; pid ${this.dir}/pid; error_log stderr; events {}\nhttp { access_log off; ${temporary}\nserver { listen 127.0.0.1:${port};\n${body}\n} }\n`,
    );
    this.child = spawn("/usr/sbin/nginx", ["-p", this.dir, "-e", "stderr", "-c", file], { stdio: ["ignore", "ignore", "inherit"] });
    await expect(async () => {
      await new Promise((resolve, reject) => createConnection(port, "127.0.0.1", () => resolve(undefined)).once("error", reject));
    }).toPass();
    this.url = `http://127.0.0.1:${port}`;
  }

  async stop() {
    const child = this.child;
    if (child && child.exitCode === null) {
      const gone = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      await gone;
    }
    rmSync(this.dir, { recursive: true, force: true });
  }
}

// pages returns the paths of all pages, from the routes.
function pages(ids: Record<string, string>): string[] {
  const routes = readFileSync(join(repository, "ui", "src", "app", "router.tsx"), "utf8");
  const paths = [...routes.matchAll(/path: "\/([^"]+)"/g)].map((m) => m[1]!);
  expect(paths.length).toBeGreaterThan(3);
  return paths.map((path) => path.replace(/^(\w+)\/(.*)\$\w+/, (_, noun: string, between: string) => `${noun}/${between}${ids[noun] ?? "none"}`));
}

test("U-10: every page under a path of a real nginx, opened by its address and reloaded", async ({ page, server }) => {
  test.setTimeout(180_000);
  const nginx = new Nginx();
  try {
    await nginx.start(location(server.port));
    const root = `${nginx.url}/perdure`;
    const id = await server.session("Behind nginx");
    await server.say(id, "background");
    await expect(async () => expect(await server.cli("task", "list", "-o", "name")).toMatch(/^task_/)).toPass();
    const task = (await server.cli("task", "list", "-o", "name")).split("\n")[0]!;

    await page.goto(`${root}/`);
    await expect(page).toHaveURL(`${root}/ui/sessions`);
    await page.getByLabel("Token").fill(server.token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await expect(page.getByRole("link", { name: /Behind nginx/ })).toBeVisible();

    const outside: string[] = [];
    page.on("request", (r) => {
      if (!r.url().startsWith(`${root}/`) && !/^(data|blob):/.test(r.url())) outside.push(r.url());
    });
    for (const path of pages({ sessions: id, tasks: task })) {
      const address = `${root}/ui/${path}`;
      await page.goto(address);
      await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
      await page.reload();
      await expect(page).toHaveURL((now) => now.href.startsWith(address));
      await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
      await expect(connection(page)).toHaveAttribute("data-state", "live");
    }
    expect(outside, "requests that leave the path").toEqual([]);
    await page.goto(`${root}/ui/sessions/${id}`);
    await page.getByLabel("Message").fill("hello");
    await page.keyboard.press("Enter");
    await expect(page.getByText("Hello from the script.")).toBeVisible();
  } finally {
    await nginx.stop();
  }
});
