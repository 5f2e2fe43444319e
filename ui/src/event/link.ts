import address from "./worker?sharedworker&url";
import { Hub, type FromHub, type ToHub } from "./hub";

// Link connects a page to a hub: to the one that all pages of the browser share, or to one of its own.
export type Link = { send: (message: ToHub) => void; close: () => void; shared: boolean };

// sharedLink returns a link to the hub of the browser; undefined: there is none. onFailure runs if it
// does not start.
export function sharedLink(base: string, hear: (message: FromHub) => void, onFailure: () => void): Link | undefined {
  if (typeof SharedWorker === "undefined") return undefined;
  try {
    const worker = new SharedWorker(trusted(address) as string, { name: base });
    worker.onerror = onFailure;
    worker.port.onmessage = (m: MessageEvent<FromHub>) => hear(m.data);
    const send = (message: ToHub) => worker.port.postMessage(message);
    const close = () => {
      send({ do: "bye" });
      worker.port.close();
      worker.onerror = null;
    };
    return { send, close, shared: true };
  } catch {
    return undefined;
  }
}

// ownLink returns a link to a hub of this page alone.
export function ownLink(base: string, hear: (message: FromHub) => void): Link {
  const hub = new Hub(base);
  const client = { post: hear };
  queueMicrotask(() => hub.join(client));
  return { send: (message) => queueMicrotask(() => hub.hear(client, message)), close: () => queueMicrotask(() => hub.leave(client)), shared: false };
}

type Policies = { createPolicy: (name: string, rules: { createScriptURL: (url: string) => string }) => { createScriptURL: (url: string) => unknown } };

let policy: ReturnType<Policies["createPolicy"]> | undefined;

// trusted marks the address of the worker as one that may run. The policy of the page accepts no other.
function trusted(url: string): unknown {
  const policies = (window as unknown as { trustedTypes?: Policies }).trustedTypes;
  if (!policies) return url;
  policy ??= policies.createPolicy("perdure-worker", {
    createScriptURL: (u) => {
      if (u !== address) throw new TypeError("not the worker of this page");
      return u;
    },
  });
  return policy.createScriptURL(url);
}
