import { execFile, spawn, type ChildProcess } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const binary = process.env.PERDURE_UI_BINARY;

// freePort returns a port that nothing listens on.
async function freePort(): Promise<number> {
  return await new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      const port = typeof address === "object" && address ? address.port : 0;
      probe.close(() => resolve(port));
    });
  });
}

// Server is a real server in a fresh home.
export class Server {
  private child: ChildProcess | undefined;
  readonly more: Record<string, string> = {}; // variables of the environment, from the next start on
  readonly flags: string[] = []; // of the command, from the next start on
  private constructor(
    readonly home: string,
    readonly port: number,
    readonly script: string,
  ) {}

  // start starts a server whose model answers from a script of this folder. files are written to its data
  // directory before.
  static async start(script = "agent.yaml", files: Record<string, string> = {}): Promise<Server> {
    if (!binary) throw new Error("PERDURE_UI_BINARY names no binary: run the tests with  make ui-test");
    const s = new Server(mkdtempSync(join(tmpdir(), "perdure-ui-")), await freePort(), join(import.meta.dirname, script));
    mkdirSync(join(s.home, "work"));
    mkdirSync(join(s.home, "data"), { mode: 0o700 });
    for (const [name, text] of Object.entries(files)) writeFileSync(join(s.home, "data", name), text);
    await s.start();
    return s;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get token(): string {
    return readFileSync(join(this.home, "data", "token"), "utf8").trim();
  }

  private get env() {
    const { PATH = "" } = process.env;
    return { PATH: `${PATH}:/usr/sbin`, HOME: this.home, PERDURE_DATA: join(this.home, "data"), ...this.more };
  }

  async start(): Promise<void> {
    const child = spawn(binary!, ["serve", "--addr", `127.0.0.1:${this.port}`, "--allow-shell", "--ask", "add", "--model", `scripted:${this.script}`, ...this.flags], {
      cwd: this.home,
      env: this.env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.child = child;
    let said = "";
    child.stderr.on("data", (text) => (said += text));
    await new Promise<void>((resolve, reject) => {
      child.stdout.once("data", () => resolve());
      child.once("exit", (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
    });
  }

  // kill ends the server as a power cut would.
  async kill(): Promise<void> {
    const child = this.child!;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }

  // stop ends the work of every turn and every task, and then the server. A command survives its server, and
  // would slow down the tests after this one.
  async stop(): Promise<void> {
    const child = this.child;
    if (child && child.exitCode === null && child.signalCode === null) {
      for (const [noun, state, end] of [["session", "active", this.endTurn], ["task", "queued,running,awaiting_input", this.endTask]] as const) {
        const live = await this.cli(noun, "list", "--state", state, "-o", "name").catch(() => "");
        await Promise.all(live.split("\n").filter(Boolean).map((id) => end(id).catch(() => undefined)));
      }
      const gone = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      await gone;
    }
    rmSync(this.home, { recursive: true, force: true });
  }

  private endTurn = async (session: string): Promise<void> => {
    await this.api("POST", `/v1/sessions/${session}/interrupt`);
    for (let left = 100; left > 0 && (await this.api<{ state: string }>("GET", `/v1/sessions/${session}`)).state === "active"; left--) {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  };

  private endTask = async (task: string): Promise<void> => {
    await this.api("POST", `/v1/tasks/${task}/cancel`, { force: true });
    await this.api("GET", `/v1/tasks/${task}?wait=20s`);
  };

  // write writes a file of the data directory.
  write(name: string, text: string) {
    writeFileSync(join(this.home, "data", name), text, { mode: 0o600 });
  }

  // cli runs a command of the binary on the data directory.
  async cli(...args: string[]): Promise<string> {
    const { stdout } = await promisify(execFile)(binary!, args, { env: this.env, cwd: this.home });
    return stdout.trim();
  }

  // api sends a request with the token of the data directory.
  async api<T>(method: string, path: string, body?: unknown): Promise<T> {
    const res = await fetch(this.url + path, {
      method,
      headers: { Authorization: `Bearer ${this.token}`, "Content-Type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!res.ok) throw new Error(`${method} ${path}: ${res.status} ${await res.text()}`);
    return (await res.json()) as T;
  }

  async session(title: string): Promise<string> {
    return (await this.api<{ id: string }>("POST", "/v1/sessions", { agent: { name: "helper", capabilities: ["bashkit_shell"], metadata: { workspace: join(this.home, "work") } }, title })).id;
  }

  async say(session: string, text: string): Promise<void> {
    await this.api("POST", `/v1/sessions/${session}/messages`, { content: [{ type: "text", text }] });
  }
}
