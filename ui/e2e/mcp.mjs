// An MCP server on stdio with one tool, for the tests of the web UI.
import { createInterface } from "node:readline";

const tool = {
  name: "shout",
  description: "Writes a text in capitals.",
  inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  annotations: { readOnlyHint: true },
};

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const result =
    method === "initialize" ? { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "shouter", version: "1" } }
    : method === "tools/list" ? { tools: [tool] }
    : method === "tools/call" ? { content: [{ type: "text", text: String(params.arguments.text).toUpperCase() }] }
    : method === "ping" ? {}
    : undefined;
  const answer = result ? { result } : { error: { code: -32601, message: "no such method" } };
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...answer }) + "\n");
});
