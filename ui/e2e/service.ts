import { createHash } from "node:crypto";
import { Outside } from "./outside";

// Service is another service on this machine: an OAuth 2.0 authorization server with PKCE, and an MCP server that
// answers calls only with one of its tokens. It lists its tools for everybody, or is closed: without a token it
// answers nothing. The result of a call repeats the token.
export type Service = { outside: Outside; calls: string[]; issued: string[] };

// service starts it. Each code counts once, and only with the verifier and the address of its authorization.
export async function service(closed = false): Promise<Service> {
  const codes = new Map<string, { challenge: string; redirect: string }>();
  const here: Omit<Service, "outside"> = { calls: [], issued: [] };
  const json = (value: unknown) => JSON.stringify(value);
  const outside = await Outside.start((path, headers, res) => {
    const url = new URL(path, "http://service");
    const body = outside.requests.at(-1)!.body;
    const say = (status: number, text: string, type = "application/json") => void res.writeHead(status, { "Content-Type": type }).end(text);
    switch (url.pathname) {
      case "/authorize": {
        const q = url.searchParams;
        const redirect = q.get("redirect_uri") ?? "";
        if (q.get("response_type") !== "code" || q.get("code_challenge_method") !== "S256" || q.get("client_id") !== "app") return say(400, "{}");
        const code = `code-${codes.size + 1}`;
        codes.set(code, { challenge: q.get("code_challenge") ?? "", redirect });
        const back = (more: Record<string, string>) => `${redirect}?${new URLSearchParams(more)}`.replaceAll("&", "&amp;");
        const state = q.get("state") ?? "";
        return say(200, `<!doctype html><html lang="en"><title>Service</title><h1>May Perdure use your account?</h1>
          <a href="${back({ state, code })}">Allow</a> <a href="${back({ state, error: "access_denied" })}">Refuse</a>
          <a href="${back({ state: `${state.slice(0, -4)}AAAA`, code })}">Another state</a></html>`, "text/html");
      }
      case "/token": {
        const q = new URLSearchParams(body);
        const known = codes.get(q.get("code") ?? "");
        codes.delete(q.get("code") ?? "");
        const proof = createHash("sha256").update(q.get("code_verifier") ?? "").digest("base64url");
        if (!known || known.challenge !== proof || known.redirect !== q.get("redirect_uri")) return say(400, json({ error: "invalid_grant" }));
        const token = `access-canary-${here.issued.length + 1}`;
        here.issued.push(token);
        return say(200, json({ access_token: token, token_type: "Bearer", expires_in: 3600, refresh_token: `refresh-canary-${here.issued.length}`, scope: "read" }));
      }
      case "/mcp":
        return closed && !owned(here, headers.authorization) ? say(401, "{}") : answerMCP(here, headers.authorization, body, say);
      default:
        return say(404, "{}");
    }
  });
  return { outside, ...here };
}

const owned = (here: Omit<Service, "outside">, authorization: string | undefined) => here.issued.some((token) => authorization === `Bearer ${token}`);

type Say = (status: number, text: string) => void;

// answerMCP answers one request of an MCP client over HTTP.
function answerMCP(here: Omit<Service, "outside">, authorization: string | undefined, body: string, say: Say) {
  if (!body) return say(405, "");
  const { id, method, params } = JSON.parse(body);
  if (id === undefined) return say(202, "");
  const answer = (result: unknown) => say(200, JSON.stringify({ jsonrpc: "2.0", id, result }));
  switch (method) {
    case "initialize":
      return answer({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "tickets", version: "1" } });
    case "tools/list":
      return answer({ tools: [{ name: "open", description: "Counts the open tickets.", inputSchema: { type: "object", properties: {} }, annotations: { readOnlyHint: true } }] });
    case "tools/call":
      here.calls.push(authorization ?? "");
      if (!owned(here, authorization)) return say(401, "{}");
      return answer({ content: [{ type: "text", text: `3 tickets are open for ${authorization}` }] });
    default:
      return answer({});
  }
}
