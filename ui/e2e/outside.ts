import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

// Outside is a server on this machine that plays another one: a provider of models, or a receiver.
export class Outside {
  readonly requests: { path: string; headers: IncomingMessage["headers"]; body: string }[] = [];
  private constructor(
    readonly port: number,
    private readonly end: () => void,
  ) {}

  static async start(answer: (path: string, headers: IncomingMessage["headers"], res: ServerResponse) => void): Promise<Outside> {
    const server = createServer((req, res) => {
      let body = "";
      req.on("data", (d) => (body += d));
      req.on("end", () => {
        outside.requests.push({ path: req.url ?? "", headers: req.headers, body });
        answer(req.url ?? "", req.headers, res);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const at = server.address();
    const outside = new Outside(typeof at === "object" && at ? at.port : 0, () => {
      server.closeAllConnections();
      server.close();
    });
    return outside;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  stop = () => this.end();
}

// models answers like a provider of models that wants a key.
export const models = (key: string) => (_: string, headers: IncomingMessage["headers"], res: ServerResponse) => {
  if (headers.authorization !== `Bearer ${key}`) {
    return void res.writeHead(401, { "Content-Type": "application/json" }).end(JSON.stringify({ error: { message: "Incorrect API key", type: "invalid_request_error", code: "invalid_api_key" } }));
  }
  res.writeHead(200, { "Content-Type": "text/event-stream" });
  const chunk = (delta: object, finish: string | null) =>
    res.write(`data: ${JSON.stringify({ id: "c1", object: "chat.completion.chunk", created: 1, model: "small", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`);
  chunk({ role: "assistant", content: "ok" }, null);
  chunk({}, "stop");
  res.write(`data: ${JSON.stringify({ id: "c1", object: "chat.completion.chunk", created: 1, model: "small", choices: [], usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 } })}\n\n`);
  res.end("data: [DONE]\n\n");
};
