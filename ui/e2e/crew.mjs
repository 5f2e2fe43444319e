// An MCP server over stdio whose calls run until a test ends them. The test says what each of them
// reports over HTTP, on a socket in the folder that the argument names.
import { createServer } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";

const socket = join(process.argv[2], `${process.pid}.sock`);
setTimeout(() => process.exit(), 900_000); // it may outlive a server that was killed

const send = (m) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...m }) + "\n");
const tool = { name: "work", description: "Runs until it is ended.", inputSchema: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] } };
const running = new Map(); // the request and its progress token, by n

createServer(async (req, res) => {
  let body = "";
  for await (const part of req) body += part;
  const { report = [], end = [], exit } = JSON.parse(body);
  if (exit) process.exit();
  for (const { n, step } of report) {
    const one = running.get(n);
    if (one) send({ method: "notifications/progress", params: { progressToken: one.token, progress: step, total: 1_000_000, message: `step ${step} of ${n}` } });
  }
  for (const n of end) {
    const one = running.get(n);
    if (one) send({ id: one.id, result: { content: [{ type: "text", text: `ended ${n}` }], isError: false } });
    running.delete(n);
  }
  res.end(String(running.size));
}).listen(socket);

const input = createInterface({ input: process.stdin });
input.on("close", () => process.exit()); // the server is gone
input.on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  if (method === "tools/call") return running.set(params.arguments.n, { id, token: params._meta?.progressToken });
  const result =
    method === "initialize" ? { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "crew", version: "1" } }
    : method === "tools/list" ? { tools: [tool] }
    : method === "ping" ? {}
    : undefined;
  send({ id, ...(result ? { result } : { error: { code: -32601, message: "no such method" } }) });
});
