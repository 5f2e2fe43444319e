import { createParser } from "eventsource-parser";
import type { Frame } from "./types";

// Connection says how fresh the page is. since is when the last frame or ping arrived.
export type Connection = { state: "live" | "connecting" | "reconnecting" | "offline" | "paused"; since: number; retryAt: number };

// Wanted is one topic of the stream: a list, or a session and the seq after which it continues.
export type Wanted = { name: string; after?: number };

// Owner decides what a wire carries, and gets what arrives.
export type Owner = {
  wanted: () => Wanted[];
  onFrames: (frames: Frame[]) => void;
  onConnection: (c: Connection) => void;
  // onRefused returns whether the wanted topics are others now, so that the stream may be opened again.
  onRefused: (status: number, detail: string) => boolean;
};

const silence = 35_000; // longer than two pings of the server
const firstPause = 500;
const lastPause = 8_000;
const offlineAfter = 10_000;

// Wire is one connection to the server, with all topics that are wanted. It has no page: it also runs in
// a worker. A connection with the same topics continues after the last frame; other topics begin at
// their own positions.
export class Wire {
  private abort: AbortController | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private due = Infinity;
  private watch: ReturnType<typeof setInterval> | undefined;
  private heard = Date.now();
  private pause = firstPause;
  private place = { names: "", id: "" }; // of the last frame
  private current: Connection = { state: "connecting", since: Date.now(), retryAt: 0 };

  constructor(
    private base: string,
    private owner: Owner,
  ) {}

  connection = (): Connection => this.current;

  // open opens the connection after a pause, in place of the present one. Of several calls the earliest
  // counts.
  open(pause: number) {
    const due = Date.now() + pause;
    if (due >= this.due) return;
    clearTimeout(this.timer);
    this.due = due;
    this.timer = setTimeout(() => void this.run(), pause);
    this.watch ??= setInterval(() => this.look(), 1000);
  }

  // restart opens the connection at once, and begins at the positions of the topics instead of after the
  // last frame.
  restart() {
    this.place.id = "";
    this.open(0);
  }

  // wake opens the connection at once if it seems to be dead, as after a computer slept.
  wake() {
    if (Date.now() - this.heard > 20_000 || this.current.state !== "live") this.open(0);
  }

  close() {
    clearTimeout(this.timer);
    clearInterval(this.watch);
    this.watch = undefined;
    this.due = Infinity;
    this.abort?.abort();
    this.current = { state: "connecting", since: this.heard, retryAt: 0 };
  }

  private look() {
    const quiet = Date.now() - this.heard;
    if (this.current.state === "live" && quiet > silence) this.lost();
    if (this.current.state === "reconnecting" && quiet > offlineAfter) this.tell("offline", this.current.retryAt);
  }

  private tell(state: Connection["state"], retryAt: number) {
    if (state === "live") this.heard = Date.now();
    if (this.current.state === state && this.current.retryAt === retryAt) return;
    this.current = { state, since: this.heard, retryAt };
    this.owner.onConnection(this.current);
  }

  private lost() {
    this.abort?.abort();
    const pause = this.pause;
    this.pause = Math.min(2 * pause, lastPause);
    this.tell(Date.now() - this.heard > offlineAfter ? "offline" : "reconnecting", Date.now() + pause);
    this.open(pause);
  }

  private async run() {
    this.due = Infinity;
    this.abort?.abort();
    const wanted = this.owner.wanted();
    if (wanted.length === 0) return;
    const abort = (this.abort = new AbortController());
    const names = wanted.map((w) => w.name).join(",");
    if (names !== this.place.names) this.place = { names, id: "" };
    try {
      const answer = await this.ask(wanted, abort.signal);
      if (answer.status === 401) return void this.owner.onRefused(401, "");
      if (answer.status === 403 || answer.status === 404) {
        if (this.owner.onRefused(answer.status, await answer.text())) this.open(0);
        else this.lost();
        return;
      }
      if (answer.status === 400 && this.place.id) return this.restart(); // a position of another server
      if (!answer.ok || !answer.body) throw new Error(String(answer.status));
      await this.read(answer.body, abort.signal);
    } catch {
      // the server is away, or the stream broke: both are the same to a reader
    }
    if (!abort.signal.aborted) this.lost();
  }

  private ask(wanted: Wanted[], signal: AbortSignal): Promise<Response> {
    const topics = wanted.map((w) => (w.after === undefined ? w.name : `${w.name}@${w.after}`)).join(",");
    return fetch(`${this.base}v1/events?topics=${encodeURIComponent(topics)}`, {
      headers: { Accept: "text/event-stream", ...(this.place.id ? { "Last-Event-ID": this.place.id } : {}) },
      signal,
      credentials: "same-origin",
      cache: "no-store",
    });
  }

  private async read(body: ReadableStream<Uint8Array>, signal: AbortSignal) {
    this.pause = firstPause;
    this.tell("live", 0);
    const place = this.place;
    let ended = false;
    let frames: Frame[] = [];
    const parser = createParser({
      onEvent: (e) => {
        if (e.event === "end" || e.event === "slow") return void (ended = true);
        const { topic, data } = JSON.parse(e.data) as { topic: string; data: unknown };
        frames.push({ topic, type: e.event ?? "", data });
        if (e.id) place.id = e.id;
      },
    });
    const reader = body.pipeThrough(new TextDecoderStream() as unknown as ReadableWritablePair<string, Uint8Array>).getReader();
    while (!ended && !signal.aborted) {
      const { done, value } = await reader.read();
      if (done) return;
      this.heard = Date.now();
      parser.feed(value);
      if (frames.length > 0 && !signal.aborted) this.owner.onFrames(frames);
      frames = [];
    }
    await reader.cancel();
  }
}
