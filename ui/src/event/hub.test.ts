import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Hub, type Client, type FromHub, type ToHub } from "./hub";

// Line is one request for the stream, which the test answers.
type Line = { url: URL; lastID: string | null; aborted: boolean; answer: (status: number, body?: string) => void; send: (id: string, type: string, topic: string, data: unknown) => void; end: () => void };

let lines: Line[] = [];
const settle = () => vi.advanceTimersByTimeAsync(1);

beforeEach(() => {
  vi.useFakeTimers();
  lines = [];
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    const signal = init.signal!;
    return new Promise<Response>((resolve, reject) => {
      let out: ReadableStreamDefaultController<Uint8Array> | undefined;
      const line: Line = {
        url: new URL(url),
        lastID: new Headers(init.headers).get("Last-Event-ID"),
        aborted: false,
        answer: (status, body) => resolve(body !== undefined ? new Response(body, { status }) : new Response(new ReadableStream<Uint8Array>({ start: (c) => void (out = c) }), { status })),
        send: (id, type, topic, data) => out!.enqueue(new TextEncoder().encode(`id: ${id}\nevent: ${type}\ndata: ${JSON.stringify({ topic, data })}\n\n`)),
        end: () => out!.close(),
      };
      signal.addEventListener("abort", () => {
        line.aborted = true;
        reject(new DOMException("aborted", "AbortError"));
        try {
          out?.error(new DOMException("aborted", "AbortError"));
        } catch {
          // it has ended
        }
      });
      lines.push(line);
    });
  });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

// Page is a page of a hub, with what it got.
function page(hub: Hub) {
  const got: FromHub[] = [];
  const client: Client = { post: (m) => got.push(m) };
  hub.join(client);
  return {
    say: (m: ToHub) => hub.hear(client, m),
    leave: () => hub.leave(client),
    got,
    frames: () => got.flatMap((m) => (m.say === "frames" ? m.frames.map((f) => ({ key: f.key, type: f.frame.type, data: f.frame.data as { items?: { id: string }[]; gone?: string[]; seq?: number } })) : [])),
  };
}

const topics = (line: Line) => line.url.searchParams.get("topics");

describe("a hub", () => {
  test("has one stream for all pages, and gives a list that it has to another page", async () => {
    const hub = new Hub("http://server/");
    const one = page(hub);
    one.say({ do: "follow", key: 1, name: "tasks" });
    one.say({ do: "follow", key: 2, name: "approvals" });
    await settle();
    expect(lines.map(topics)).toEqual(["tasks,approvals"]);
    lines[0]!.answer(200);
    await settle();
    lines[0]!.send("p1", "snapshot", "tasks", { items: [{ id: "a", n: 1 }], gone: [] });
    await settle();

    const other = page(hub);
    other.say({ do: "follow", key: 7, name: "tasks" });
    await settle();
    expect(lines).toHaveLength(1);
    expect(other.frames()).toEqual([{ key: 7, type: "snapshot", data: { items: [{ id: "a", n: 1 }], gone: [] } }]);

    lines[0]!.send("p2", "changed", "tasks", { items: [{ id: "b" }], gone: ["a"] });
    await settle();
    for (const p of [one, other]) expect(p.frames().at(-1)).toMatchObject({ type: "changed", data: { items: [{ id: "b" }], gone: ["a"] } });
    other.leave();
  });

  test("sends of a second snapshot only what changed", async () => {
    const hub = new Hub("http://server/");
    const one = page(hub);
    one.say({ do: "follow", key: 1, name: "tasks" });
    await settle();
    lines[0]!.answer(200);
    await settle();
    lines[0]!.send("p1", "snapshot", "tasks", { items: [{ id: "a", n: 1 }, { id: "b" }], gone: [] });
    await settle();
    one.say({ do: "follow", key: 2, name: "session_1", after: 4 });
    await settle();
    expect(topics(lines[1]!)).toBe("tasks,session_1@4");
    expect(lines[0]!.aborted).toBe(true);
    lines[1]!.answer(200);
    await settle();
    lines[1]!.send("q1", "snapshot", "tasks", { items: [{ id: "a", n: 2 }], gone: [] });
    await settle();
    expect(one.frames().at(-1)).toEqual({ key: 1, type: "changed", data: { items: [{ id: "a", n: 2 }], gone: ["b"] } });
    const before = one.frames().length;
    lines[1]!.send("q2", "snapshot", "tasks", { items: [{ id: "a", n: 2 }], gone: [] });
    await settle();
    expect(one.frames()).toHaveLength(before);
  });

  test("continues a session where the page that has least of it is, and no page gets an event twice", async () => {
    const hub = new Hub("http://server/");
    const one = page(hub);
    const other = page(hub);
    one.say({ do: "follow", key: 1, name: "session_1", after: 10 });
    await settle();
    lines[0]!.answer(200);
    await settle();
    other.say({ do: "follow", key: 1, name: "session_1", after: 8 });
    await settle();
    expect(topics(lines[1]!)).toBe("session_1@8");
    expect(lines[1]!.lastID).toBeNull();
    lines[1]!.answer(200);
    await settle();
    for (const seq of [9, 10, 11]) lines[1]!.send(`p${seq}`, "x", "session_1", { seq, type: "x" });
    lines[1]!.send("", "output.message.delta", "session_1", { delta: "word" });
    await settle();
    expect(one.frames().map((f) => f.data.seq)).toEqual([11, undefined]);
    expect(other.frames().map((f) => f.data.seq)).toEqual([9, 10, 11, undefined]);
  });

  test("reconnects after the last frame, and begins anew where that is refused", async () => {
    const hub = new Hub("http://server/");
    const one = page(hub);
    one.say({ do: "follow", key: 1, name: "session_1", after: 3 });
    await settle();
    lines[0]!.answer(200);
    await settle();
    lines[0]!.send("place4", "x", "session_1", { seq: 4, type: "x" });
    await settle();
    lines[0]!.end();
    await vi.advanceTimersByTimeAsync(600);
    expect(lines[1]!.lastID).toBe("place4");
    lines[1]!.answer(400, "");
    await settle();
    await settle();
    expect(lines[2]!.lastID).toBeNull();
    expect(topics(lines[2]!)).toBe("session_1@4");
    expect(one.got.filter((m) => m.say === "connection").map((m) => m.say === "connection" && m.connection.state)).toContain("reconnecting");
  });

  test("gives up a session that was deleted, and keeps the rest", async () => {
    const hub = new Hub("http://server/");
    const one = page(hub);
    one.say({ do: "follow", key: 1, name: "tasks" });
    one.say({ do: "follow", key: 2, name: "session_gone", after: 1 });
    await settle();
    lines[0]!.answer(404, JSON.stringify({ detail: "session session_gone: not found" }));
    await settle();
    await settle();
    expect(one.got).toContainEqual({ say: "refused", status: 404, key: 2 });
    expect(topics(lines[1]!)).toBe("tasks");
  });

  test("tells all pages about a sign-out, and forgets the lists", async () => {
    const hub = new Hub("http://server/");
    const one = page(hub);
    const other = page(hub);
    one.say({ do: "follow", key: 1, name: "tasks" });
    other.say({ do: "follow", key: 1, name: "tasks" });
    await settle();
    lines[0]!.answer(200);
    await settle();
    lines[0]!.send("p1", "snapshot", "tasks", { items: [{ id: "secret" }], gone: [] });
    await settle();
    one.say({ do: "retry" });
    await settle();
    lines[1]!.answer(401, "");
    await settle();
    for (const p of [one, other]) expect(p.got.at(-1)).toEqual({ say: "refused", status: 401 });
    one.say({ do: "follow", key: 2, name: "tasks" });
    await settle();
    expect(one.frames().filter((f) => f.key === 2)).toEqual([]);
    expect(lines).toHaveLength(3);
  });

  test("closes the stream when the last page is gone, and later without a topic that nobody follows", async () => {
    const hub = new Hub("http://server/");
    const one = page(hub);
    one.say({ do: "follow", key: 1, name: "tasks" });
    one.say({ do: "follow", key: 2, name: "session_1", after: 1 });
    await settle();
    lines[0]!.answer(200);
    await settle();
    one.say({ do: "unfollow", key: 2 });
    await settle();
    expect(lines).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(3000);
    expect(topics(lines[1]!)).toBe("tasks");
    one.leave();
    await settle();
    expect(lines[1]!.aborted).toBe(true);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(lines).toHaveLength(2);
  });

  test("is reconnecting, then offline, and live again", async () => {
    const hub = new Hub("http://server/");
    const one = page(hub);
    one.say({ do: "follow", key: 1, name: "tasks" });
    await settle();
    for (let i = 0; i < 8 && lines.length > i; i++) {
      lines[i]!.answer(503, "");
      await vi.advanceTimersByTimeAsync(8100);
    }
    const states = one.got.flatMap((m) => (m.say === "connection" ? [m.connection.state] : []));
    expect(states[0]).toBe("connecting");
    expect(states).toContain("reconnecting");
    expect(states.at(-1)).toBe("offline");
    lines.at(-1)!.answer(200);
    await settle();
    expect(one.got.at(-1)).toMatchObject({ say: "connection", connection: { state: "live" } });
  });
});
