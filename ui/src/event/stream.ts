import type { FromHub } from "./hub";
import { ownLink, sharedLink, type Link } from "./link";
import type { Frame } from "./types";
import type { Connection } from "./wire";

export type { Connection } from "./wire";

// Topic is one subscription. after returns the seq that a session is known up to; lists have none, and
// begin with a snapshot.
export type Topic = { name: string; after?: () => number; onFrame: (frame: Frame) => void };

const pingEvery = 5000;
const mostPings = 3; // without an answer, until the worker counts as dead

// EventStream is the stream of one page. All pages of a browser share one connection through a worker,
// since a browser opens six connections to a server at most; without workers, each page has its own.
//
// A paused page gets nothing: it ends its subscriptions, and continues each of them afterwards at its
// position, so nothing is lost and nothing is kept in memory.
export class EventStream {
  private topics = new Map<number, Topic>();
  private first = new Set<number>(); // topics of a paused page that may get one frame
  private link: Link;
  private lastKey = 0;
  private pings = 0;
  private observers = new Set<() => void>();
  private fresh: Connection = { state: "connecting", since: Date.now(), retryAt: 0 };
  private current: Connection = this.fresh;
  private paused = false;
  private lock = "";

  // onRefused runs when the server refuses the stream, as after a sign-out, or a topic of it.
  constructor(
    private base: string,
    private onRefused: (status: number) => void,
  ) {
    this.link = this.newLink(true);
    const wake = () => {
      this.pings = 0;
      if (document.visibilityState === "visible") this.link.send({ do: "wake" });
    };
    document.addEventListener("visibilitychange", wake);
    window.addEventListener("online", wake);
    window.addEventListener("pagehide", () => this.link.send({ do: "bye" }));
    window.addEventListener("pageshow", (e) => e.persisted && this.relink(this.link.shared));
    setInterval(() => this.ping(), pingEvery);
  }

  connection = (): Connection => this.current;

  observe = (fn: () => void): (() => void) => {
    this.observers.add(fn);
    return () => this.observers.delete(fn);
  };

  // follow subscribes to a topic, and returns how to end that.
  follow(topic: Topic): () => void {
    const key = ++this.lastKey;
    this.topics.set(key, topic);
    if (!this.paused) this.ask(key, topic);
    else if (!topic.after) {
      this.first.add(key); // a list that this page does not have yet
      this.ask(key, topic);
    }
    return () => {
      this.topics.delete(key);
      this.first.delete(key);
      this.link.send({ do: "unfollow", key });
    };
  }

  // retry opens the connection at once, for instance after a sign-in.
  retry = () => this.link.send({ do: "retry" });

  // pause keeps the page as it is; resume catches up.
  pause = (on: boolean) => {
    if (this.paused === on) return;
    this.paused = on;
    this.first.clear();
    this.topics.forEach((topic, key) => (on ? this.link.send({ do: "unfollow", key }) : this.ask(key, topic)));
    this.tell(this.fresh);
  };

  private ask(key: number, topic: Topic) {
    this.link.send({ do: "follow", key, name: topic.name, ...(topic.after ? { after: topic.after() } : {}) });
  }

  private tell(fresh: Connection) {
    this.fresh = fresh;
    this.current = this.paused ? { ...fresh, state: "paused", since: this.current.state === "paused" ? this.current.since : Date.now() } : fresh;
    this.observers.forEach((fn) => fn());
  }

  private hear = (message: FromHub) => {
    this.pings = 0;
    switch (message.say) {
      case "frames":
        message.frames.forEach(({ key, frame }) => this.pass(key, frame));
        return;
      case "connection":
        return this.tell(message.connection);
      case "refused":
        return this.onRefused(message.status);
    }
  };

  private pass(key: number, frame: Frame) {
    if (this.paused && !this.first.delete(key)) return; // it was on its way when the page was paused
    if (this.paused) this.link.send({ do: "unfollow", key });
    this.topics.get(key)?.onFrame(frame);
  }

  private newLink(shared: boolean): Link {
    const made = shared ? sharedLink(this.base, this.hear, () => this.relink(false)) : undefined;
    if (made) this.holdLock(made);
    return made ?? ownLink(this.base, this.hear);
  }

  // relink connects to another hub, and follows everything again.
  private relink(shared: boolean) {
    this.pings = 0;
    this.link.close();
    this.link = this.newLink(shared);
    if (!this.paused) this.topics.forEach((topic, key) => this.ask(key, topic));
  }

  // ping asks whether the worker is alive. A page in the background has slow timers, so only a visible
  // one counts.
  private ping() {
    if (!this.link.shared || document.visibilityState !== "visible") return;
    if (this.pings >= mostPings) return this.relink(false);
    this.pings++;
    this.link.send({ do: "ping" });
  }

  // holdLock holds a lock as long as the page exists, so that the worker notices its end, even a crash.
  private holdLock(link: Link) {
    if (!navigator.locks) return;
    const hello = () => link.send({ do: "hello", lock: this.lock });
    if (this.lock) return hello();
    this.lock = `perdure page ${crypto.randomUUID()}`;
    void navigator.locks.request(this.lock, () => {
      hello();
      return new Promise(() => {});
    });
  }
}
