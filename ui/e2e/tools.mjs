// An MCP server over stdio for the tests: tools that ask, report progress, hang, or fail.
import { createInterface } from "node:readline";

// A call that never ends outlives a server that was killed, so this program ends by itself.
setTimeout(() => process.exit(), 150_000);

const send = (m) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...m }) + "\n");
const open = { type: "object", properties: {}, additionalProperties: true };
const tools = [
  { name: "book", description: "Books a room, and asks which.", inputSchema: open },
  { name: "climb", description: "Reports progress.", inputSchema: open },
  { name: "hang", description: "Never returns.", inputSchema: open },
  { name: "fail", description: "Fails.", inputSchema: open },
];
let n = 0;
const waiting = new Map();

function ask(params) {
  const id = `ask-${++n}`;
  send({ id, method: "elicitation/create", params });
  return new Promise((resolve) => waiting.set(id, resolve));
}

const text = (words, isError = false) => ({ content: [{ type: "text", text: words }], isError });

async function call(name, meta) {
  if (name === "book") {
    const answer = await ask({ message: "Red and Blue are free. Which one?", requestedSchema: { type: "object", properties: { room: { type: "string", enum: ["Red", "Blue"], title: "Room" }, guests: { type: "integer", title: "Guests" } }, required: ["room"] } });
    return text(`booked ${JSON.stringify(answer.content ?? answer.action)}`);
  }
  if (name === "fail") {
    await new Promise((resolve) => setTimeout(resolve, 1200)); // it becomes a task before it fails
    return text("the printer is on fire", true);
  }
  if (name === "climb") {
    for (let i = 1; ; i++) {
      send({ method: "notifications/progress", params: { progressToken: meta?.progressToken, progress: Math.min(i, 900), total: 1000, message: `step ${i}` } });
      await new Promise((resolve) => setTimeout(resolve, 400));
    }
  }
  return new Promise(() => {});
}

createInterface({ input: process.stdin }).on("line", async (line) => {
  let m;
  try {
    m = JSON.parse(line);
  } catch {
    return;
  }
  if (m.method === undefined) return waiting.get(m.id)?.(m.result ?? { action: `refused: ${m.error?.message}` });
  if (m.id === undefined) return;
  if (m.method === "initialize") return send({ id: m.id, result: { protocolVersion: m.params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "fx", version: "1" } } });
  if (m.method === "tools/list") return send({ id: m.id, result: { tools } });
  if (m.method === "tools/call") return send({ id: m.id, result: await call(m.params.name, m.params._meta) });
  if (m.method === "ping") return send({ id: m.id, result: {} });
  send({ id: m.id, error: { code: -32601, message: "no such method" } });
});
