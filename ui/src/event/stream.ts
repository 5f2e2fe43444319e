import { createParser } from "eventsource-parser";
import type { Frame } from "./types";

// Connection says how fresh the page is. since is when the last frame or ping arrived.
export type Connection = { state: "live" | "connecting" | "reconnecting" | "offline"; since: number; retryAt: number };

// Topic is one subscription. after returns the seq that a session is known up to; lists have none, and
// begin with a snapshot.
export type Topic = { name: string; after?: () => number; onFrame: (frame: Frame) => void };

const silence = 35_000; // longer than two pings of the server
const firstPause = 500;
const lastPause = 8_000;
const offlineAfter = 10_000;

// EventStream is the one stream of a page, with all its topics. A change of the topics opens it again:
// a session continues after its last event, and a list sends its current state.
export class EventStream {
  private topics = new Map<string, Set<Topic>>();
  private abort: AbortController | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private heard = Date.now();
  private pause = firstPause;
  private watch: ReturnType<typeof setInterval> | undefined;
  private observers = new Set<() => void>();
  private current: Connection = { state: "connecting", since: Date.now(), retryAt: 0 };

  // onRefused runs when the server refuses the stream, as after a sign-out.
  constructor(
    private base: string,
    private onRefused: (status: number) => void,
  ) {}

  connection = (): Connection => this.current;

  observe = (fn: () => void): (() => void) => {
    this.observers.add(fn);
    return () => this.observers.delete(fn);
  };

  // follow subscribes to a topic, and returns how to end that.
  follow(topic: Topic): () => void {
    const known = this.topics.get(topic.name);
    if (known) known.add(topic);
    else this.topics.set(topic.name, new Set([topic]));
    this.open(0);
    return () => {
      const all = this.topics.get(topic.name);
      all?.delete(topic);
      if (all?.size === 0) this.topics.delete(topic.name);
      this.open(0);
    };
  }

  // open opens the stream after a pause, in place of the one that is open. Several calls in a row open
  // it once.
  private open(pause: number) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.run(), pause);
    this.watch ??= this.watchSilence();
  }

  // retry opens the stream at once, for instance when the network is back.
  retry = () => this.open(0);

  private watchSilence() {
    const wake = () => {
      if (document.visibilityState === "visible" && (Date.now() - this.heard > 20_000 || this.current.state !== "live")) this.open(0);
    };
    document.addEventListener("visibilitychange", wake);
    window.addEventListener("online", wake);
    return setInterval(() => {
      const quiet = Date.now() - this.heard;
      if (this.current.state === "live" && quiet > silence) this.lost();
      if (this.current.state === "reconnecting" && quiet > offlineAfter) this.tell("offline");
    }, 1000);
  }

  private tell(state: Connection["state"], retryAt = this.current.retryAt) {
    if (state === "live") this.heard = Date.now();
    if (this.current.state === state && this.current.retryAt === retryAt) return;
    this.current = { state, since: this.heard, retryAt };
    this.observers.forEach((fn) => fn());
  }

  private lost() {
    this.abort?.abort();
    const pause = this.pause;
    this.pause = Math.min(2 * pause, lastPause);
    this.tell(Date.now() - this.heard > offlineAfter ? "offline" : "reconnecting", Date.now() + pause);
    this.open(pause);
  }

  private async run() {
    this.abort?.abort();
    if (this.topics.size === 0) return;
    const abort = (this.abort = new AbortController());
    const names = [...this.topics].map(([name, all]) => {
      const from = [...all].map((t) => t.after?.()).filter((n) => n !== undefined);
      return from.length > 0 ? `${name}@${Math.min(...from)}` : name;
    });
    try {
      const answer = await fetch(`${this.base}v1/events?topics=${encodeURIComponent(names.join(","))}`, {
        headers: { Accept: "text/event-stream" },
        signal: abort.signal,
        credentials: "same-origin",
        cache: "no-store",
      });
      if (answer.status === 401 || answer.status === 403 || answer.status === 404) {
        this.onRefused(answer.status);
        if (answer.status !== 401) this.lost();
        return;
      }
      if (!answer.ok || !answer.body) throw new Error(String(answer.status));
      await this.read(answer.body, abort.signal);
    } catch {
      // the server is away, or the stream broke: both are the same to a reader
    }
    if (!abort.signal.aborted) this.lost();
  }

  private async read(body: ReadableStream<Uint8Array>, signal: AbortSignal) {
    this.pause = firstPause;
    this.tell("live", 0);
    let ended = false;
    const parser = createParser({
      onEvent: (e) => {
        if (e.event === "end" || e.event === "slow") ended = true;
        else this.pass(e.event ?? "", e.data);
      },
    });
    const reader = body.pipeThrough(new TextDecoderStream() as unknown as ReadableWritablePair<string, Uint8Array>).getReader();
    while (!ended && !signal.aborted) {
      const { done, value } = await reader.read();
      if (done) return;
      this.heard = Date.now();
      parser.feed(value);
    }
    await reader.cancel();
  }

  private pass(type: string, text: string) {
    const frame = JSON.parse(text) as { topic: string; data: unknown };
    this.topics.get(frame.topic)?.forEach((t) => t.onFrame({ topic: frame.topic, type, data: frame.data }));
  }
}
