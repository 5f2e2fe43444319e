import { createHash } from "node:crypto";
import { expect } from "./rig";
import type { Server } from "./server";

export const large = "session_" + "0".repeat(31) + "1";

// importLarge imports a session whose journal is that of a small one, many times over.
export async function importLarge(server: Server, turns: number): Promise<number> {
  const seed = await server.session("A long night");
  await server.say(seed, "hello");
  await server.api("GET", `/v1/sessions/${seed}?wait=20s`);
  const exported = await fetch(`${server.url}/v1/sessions/${seed}/export`, { headers: { Authorization: `Bearer ${server.token}` } });
  const lines = (await exported.text()).trim().split("\n");
  const events = lines.map((l) => JSON.parse(l) as { kind?: string; row: { seq: number; id: string } }).filter((l) => l.kind === "event");
  const last = 1 + turns * (events.length - 1);
  const head = [lines[0]!, lines[1]!.replace(/("(?:last|taken)_seq"):\d+/g, `$1:${last}`), JSON.stringify(events[0]).replaceAll(events[0]!.row.id, "event_" + "f".repeat(32))];
  const parts = [head.join("\n").replaceAll(seed, large) + "\n"];
  const turn = events.slice(1).map((e) => JSON.stringify(e).replaceAll(seed, large));
  let seq = 1;
  for (let t = 0; t < turns; t++) {
    const fresh = t.toString(16).padStart(8, "0");
    for (const e of turn) parts.push(e.replace(/"seq":\d+/, `"seq":${++seq}`).replace(/\b(event|turn|exec|message)_[0-9a-f]{8}([0-9a-f]{24})\b/g, `$1_${fresh}$2`) + "\n");
  }
  const body = parts.join("");
  const end = JSON.stringify({ kind: "end", row: { counts: { event: last, session: 1 }, sha256: createHash("sha256").update(body).digest("hex") } });
  const res = await fetch(`${server.url}/v1/sessions/import`, { method: "POST", headers: { Authorization: `Bearer ${server.token}`, "Content-Type": "application/x-ndjson" }, body: body + end + "\n" });
  expect(res.status, await res.clone().text()).toBe(201);
  return last;
}
