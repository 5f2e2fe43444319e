// The worker that all pages of a browser share. Its name is the address of the server.
import { Hub, type Client, type ToHub } from "./hub";

const scope = self as unknown as { name: string; onconnect: (e: MessageEvent) => void };
const hub = new Hub(scope.name);

scope.onconnect = (e) => {
  const port = e.ports[0]!;
  const client: Client = { post: (message) => port.postMessage(message) };
  hub.join(client);
  port.onmessage = (m: MessageEvent<ToHub>) => {
    // the lock is free when the page is gone, however it ended
    if (m.data.do === "hello") void navigator.locks?.request(m.data.lock, () => hub.leave(client));
    else hub.hear(client, m.data);
  };
};
