import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "./rig";

// Program is one command of the binary in a fresh home, whose output is read while it runs.
export class Program {
  private readonly home = mkdtempSync(join(tmpdir(), "perdure-ui-"));
  private readonly child: ChildProcess;
  private readonly gone: Promise<number | null>;
  said = "";

  constructor(...args: string[]) {
    const { PATH = "" } = process.env;
    this.child = spawn(process.env.PERDURE_UI_BINARY!, args, { cwd: this.home, env: { PATH: `${PATH}:/usr/sbin`, HOME: this.home }, stdio: ["ignore", "pipe", "pipe"] });
    for (const out of [this.child.stdout!, this.child.stderr!]) out.on("data", (text) => (this.said += text));
    this.gone = new Promise((resolve) => this.child.once("exit", resolve));
  }

  // says waits for words of the output, and returns what they match.
  async says(words: RegExp): Promise<RegExpMatchArray> {
    await expect(() => expect(this.said).toMatch(words)).toPass({ timeout: 80_000 });
    return this.said.match(words)!;
  }

  path = (...names: string[]) => join(this.home, ...names);

  // interrupt presses Ctrl-C, and returns the exit code.
  async interrupt(): Promise<number | null> {
    this.child.kill("SIGINT");
    return await this.gone;
  }

  async end() {
    if (this.child.exitCode === null && this.child.signalCode === null) await this.interrupt();
    rmSync(this.home, { recursive: true, force: true });
  }
}

// link is a one-time link to the web UI.
export const link = /http:\/\/127\.0\.0\.1:\d+\/ui\/#link=\w+/;
