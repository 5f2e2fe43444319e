import { createServer, request, type Server } from "node:http";

// Proxied is a proxy before a server of a test, and what passed it.
export type Proxied = { url: string; streams: () => string[]; opened: () => string[]; close: () => void };

// proxied starts a proxy that serves a server below a path. It buffers answers as nginx does: a piece is
// sent when it is full or the answer has ended, unless the answer says that it is not to be buffered.
export async function proxied(port: number, prefix = ""): Promise<Proxied> {
  const open = new Set<string[]>();
  const opened: string[] = [];
  const piece = 8192;
  const proxy: Server = createServer((req, res) => {
    if (!req.url?.startsWith(prefix + "/")) return void res.writeHead(404).end();
    const path = req.url.slice(prefix.length);
    const there = request({ port, host: "127.0.0.1", method: req.method, path, headers: req.headers }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers);
      if (answer.headers["x-accel-buffering"] === "no") return void answer.pipe(res);
      let held: Buffer[] = [];
      answer.on("data", (chunk: Buffer) => {
        held.push(chunk);
        if (held.reduce((n, c) => n + c.length, 0) < piece) return;
        res.write(Buffer.concat(held));
        held = [];
      });
      answer.on("end", () => res.end(Buffer.concat(held)));
    });
    if (path.startsWith("/v1/events?")) {
      const one = [decodeURIComponent(path)];
      open.add(one);
      opened.push(one[0]!);
      res.on("close", () => open.delete(one));
    }
    there.on("error", () => res.destroy());
    res.on("close", () => there.destroy());
    req.pipe(there);
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const address = proxy.address();
  return {
    url: `http://127.0.0.1:${typeof address === "object" && address ? address.port : 0}${prefix}`,
    streams: () => [...open].map((one) => one[0]!),
    opened: () => opened,
    close: () => {
      proxy.closeAllConnections();
      proxy.close();
    },
  };
}
