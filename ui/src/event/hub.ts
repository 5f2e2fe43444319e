import type { Change, Frame } from "./types";
import { Wire, type Connection, type Wanted } from "./wire";

// What a page says to a hub, and a hub to a page. key is a subscription of the page.
export type ToHub =
  | { do: "follow"; key: number; name: string; after?: number }
  | { do: "unfollow"; key: number }
  | { do: "hello"; lock: string } // the page holds this lock as long as it exists
  | { do: "wake" | "retry" | "ping" | "bye" };

export type FromHub =
  | { say: "frames"; frames: { key: number; frame: Frame }[] }
  | { say: "connection"; connection: Connection }
  | { say: "refused"; status: number; key?: number }
  | { say: "pong" };

export type Client = { post: (message: FromHub) => void };

// Subscription is a topic of one page. at is the seq that the page has got up to; has says that the page
// has got a list.
type Subscription = { name: string; at?: number; has: boolean };

const mostTopics = 50; // of one stream
const unfollowPause = 2000; // before a stream without a topic replaces one with it

// Hub shares one wire between pages. In a worker these are all pages of the browser.
//
// A list that some page follows is in the hub: another page gets it at once, and a new snapshot becomes
// the changes that it contains.
export class Hub {
  private clients = new Map<Client, Map<number, Subscription>>();
  private lists = new Map<string, Map<string, string>>(); // the rows of a list as JSON, by id
  private outgoing = new Map<Client, { key: number; frame: Frame }[]>();
  private wire: Wire;

  constructor(base: string) {
    this.wire = new Wire(base, {
      wanted: () => this.wanted(),
      onFrames: (frames) => this.onFrames(frames),
      onConnection: (connection) => this.clients.forEach((_, c) => c.post({ say: "connection", connection })),
      onRefused: (status, detail) => this.onRefused(status, detail),
    });
  }

  join(client: Client) {
    this.clients.set(client, new Map());
    client.post({ say: "connection", connection: this.wire.connection() });
  }

  leave(client: Client) {
    if (!this.clients.delete(client)) return;
    if (this.clients.size === 0) {
      this.wire.close();
      this.lists.clear();
    } else this.wire.open(unfollowPause);
  }

  hear(client: Client, message: ToHub) {
    const mine = this.clients.get(client);
    if (!mine) return;
    switch (message.do) {
      case "follow":
        return this.follow(client, mine, message);
      case "unfollow":
        if (mine.delete(message.key)) this.wire.open(unfollowPause);
        return;
      case "wake":
        return this.wire.wake();
      case "retry":
        return this.retry();
      case "ping":
        return client.post({ say: "pong" });
      case "bye":
        return this.leave(client);
    }
  }

  // retry begins anew, as after a sign-in: lists of somebody else are no longer true.
  private retry() {
    this.lists.clear();
    this.clients.forEach((mine) => mine.forEach((one) => (one.has = false)));
    this.wire.restart();
  }

  private follow(client: Client, mine: Map<number, Subscription>, { key, name, after }: { key: number; name: string; after?: number }) {
    const one: Subscription = { name, at: after, has: false };
    mine.set(key, one);
    const rows = this.lists.get(name);
    if (!rows) return this.wire.restart();
    one.has = true;
    client.post({ say: "frames", frames: [{ key, frame: { topic: name, type: "snapshot", data: { items: [...rows.values()].map((r) => JSON.parse(r) as unknown), gone: [] } } }] });
  }

  // wanted returns the topics of all pages. A session continues where the page that has least of it is.
  private wanted(): Wanted[] {
    const all = new Map<string, Wanted>();
    for (const mine of this.clients.values()) {
      for (const { name, at } of mine.values()) {
        const known = all.get(name);
        const after = !known ? at : known.after === undefined || at === undefined ? undefined : Math.min(known.after, at);
        all.set(name, { name, after });
      }
    }
    for (const name of this.lists.keys()) if (!all.has(name)) this.lists.delete(name);
    const sessions = (w: Wanted) => (w.name.startsWith("session_") ? 1 : 0);
    return [...all.values()].sort((a, b) => sessions(a) - sessions(b)).slice(0, mostTopics);
  }

  private onFrames(frames: Frame[]) {
    for (const frame of frames) {
      if (frame.topic.startsWith("session_")) this.ofSession(frame);
      else this.ofList(frame);
    }
    this.outgoing.forEach((some, client) => client.post({ say: "frames", frames: some }));
    this.outgoing.clear();
  }

  private subscribers(name: string, fn: (one: Subscription, send: (frame: Frame) => void) => void) {
    this.clients.forEach((mine, client) =>
      mine.forEach((one, key) => {
        if (one.name !== name) return;
        fn(one, (frame) => {
          const some = this.outgoing.get(client);
          if (some) some.push({ key, frame });
          else this.outgoing.set(client, [{ key, frame }]);
        });
      }),
    );
  }

  private ofSession(frame: Frame) {
    const seq = (frame.data as { seq?: unknown } | null)?.seq;
    const whole = frame.type === "snapshot" || frame.type === "reset";
    this.subscribers(frame.topic, (one, send) => {
      if (typeof seq === "number") {
        if (!whole && one.at !== undefined && seq <= one.at) return;
        one.at = seq;
      }
      send(frame);
    });
  }

  private ofList(frame: Frame) {
    const name = frame.topic;
    const change = frame.data as Change<{ id: string }>;
    const before = this.lists.get(name) ?? new Map<string, string>();
    const whole = frame.type !== "changed";
    const rows = new Map(whole ? undefined : before);
    change.items.forEach((item) => rows.set(item.id, JSON.stringify(item)));
    change.gone.forEach((id) => rows.delete(id));
    this.lists.set(name, rows);
    const news: Change<{ id: string }> = whole
      ? { items: change.items.filter((item) => before.get(item.id) !== rows.get(item.id)), gone: [...before.keys()].filter((id) => !rows.has(id)) }
      : change;
    this.subscribers(name, (one, send) => {
      if (!one.has) {
        one.has = true;
        send({ topic: name, type: "snapshot", data: { items: [...rows.values()].map((r) => JSON.parse(r) as unknown), gone: [] } });
      } else if (news.items.length + news.gone.length > 0) send({ topic: name, type: "changed", data: news });
    });
  }

  // onRefused gives up the sessions that a refusal names: they were deleted, and must not keep the other
  // topics of the stream from the pages.
  private onRefused(status: number, detail: string): boolean {
    if (status === 401) {
      this.lists.clear();
      this.clients.forEach((_, client) => client.post({ say: "refused", status }));
      return false;
    }
    let changed = false;
    this.clients.forEach((mine, client) =>
      mine.forEach((one, key) => {
        if (!one.name.startsWith("session_") || !detail.includes(one.name)) return;
        mine.delete(key);
        changed = true;
        client.post({ say: "refused", status, key });
      }),
    );
    return changed;
  }
}
