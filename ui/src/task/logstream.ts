import { createParser } from "eventsource-parser";
import { useCallback, useEffect, useRef, useState } from "react";
import { server } from "../app/api";
import { useFrame } from "../app/hooks";
import { LogStore } from "./logstore";

const tailBytes = 256 << 10; // that a page starts with
const pause = 1000; // before the stream is opened again

export type LogState = "reading" | "follows" | "ended" | "away" | "missing";

type Wire = { offset: number; stream: string; attempt: number; at: string; bytes: string };

function decode(text: string): Uint8Array {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

// useLog follows the log of a task. It begins with the end of the log, or with whole at its start, and
// continues after the last byte when the stream breaks. What was read stays while the server is away.
export function useLog(id: string, options: { whole: boolean; stream: "all" | "err" }) {
  const { whole, stream } = options;
  const store = useRef(new LogStore());
  const [state, setState] = useState<LogState>("reading");
  const [version, setVersion] = useState(0);
  const draw = useFrame(() => setVersion((n) => n + 1));
  const waiters = useRef<(() => void)[]>([]);

  useEffect(() => {
    const abort = new AbortController();
    const fresh = new LogStore();
    let begun = false;
    let timer: ReturnType<typeof setTimeout>;
    const take = (type: string, text: string) => {
      if (!begun) {
        begun = true;
        store.current = fresh; // what was shown stays until there is something new
      }
      if (type === "log") {
        const c = JSON.parse(text) as Wire;
        fresh.append({ ...c, bytes: decode(c.bytes) });
      } else if (type === "gap") {
        const first = (JSON.parse(text) as { first_offset: number }).first_offset;
        const note = `… ${(first - fresh.next).toLocaleString()} bytes of a long log are not kept …\n`;
        fresh.append({ offset: fresh.next, stream: "gap", attempt: 0, at: "", bytes: new TextEncoder().encode(note) });
        fresh.next = first;
      }
      draw();
    };
    const run = async () => {
      const at = begun || fresh.bytes > 0 ? fresh.next : whole ? 0 : -tailBytes;
      const url = new URL(`v1/tasks/${encodeURIComponent(id)}/log?offset=${at}${stream === "err" ? "&stream=err" : ""}`, server);
      let over = false;
      try {
        const answer = await fetch(url, { headers: { Accept: "text/event-stream" }, signal: abort.signal, credentials: "same-origin", cache: "no-store" });
        if (answer.status === 404 || answer.status === 401 || answer.status === 403) return setState("missing");
        if (!answer.ok || !answer.body) throw new Error(String(answer.status));
        setState("follows");
        const parser = createParser({
          onEvent: (e) => {
            if (e.event === "end") over = true;
            take(e.event ?? "", e.data);
          },
        });
        const reader = answer.body.pipeThrough(new TextDecoderStream() as unknown as ReadableWritablePair<string, Uint8Array>).getReader();
        for (;;) {
          const { done, value } = await reader.read();
          if (done) break;
          parser.feed(value);
        }
      } catch {
        // the server is away, or the stream broke
      }
      if (abort.signal.aborted) return;
      if (over && (await hasEnded(id, abort.signal))) {
        setState("ended");
        waiters.current.splice(0).forEach((fn) => fn());
        return;
      }
      setState("away");
      timer = setTimeout(() => void run(), pause);
    };
    setState("reading");
    void run();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [id, whole, stream, draw]);

  const settled = useCallback(() => new Promise<void>((resolve) => waiters.current.push(resolve)), []);
  return { store: store.current, state, version, settled };
}

// hasEnded reports whether the task has ended: a server that stops ends its streams too.
async function hasEnded(id: string, signal: AbortSignal): Promise<boolean> {
  try {
    const answer = await fetch(new URL(`v1/tasks/${encodeURIComponent(id)}`, server), { signal, credentials: "same-origin", cache: "no-store" });
    const { state } = (await answer.json()) as { state: string };
    return state === "succeeded" || state === "failed" || state === "canceled" || state === "unknown";
  } catch {
    return false;
  }
}

// download reads the whole log, page by page up to its present end, and saves it as a file.
export async function download(id: string, onBytes: (n: number) => void): Promise<void> {
  const parts: BlobPart[] = [];
  let at = 0;
  for (;;) {
    const answer = await fetch(new URL(`v1/tasks/${encodeURIComponent(id)}/log?limit=1048576&offset=${at}`, server), { headers: { Accept: "application/octet-stream" }, credentials: "same-origin", cache: "no-store" });
    if (answer.status === 410) {
      const gone = (await answer.json()) as { first_offset?: number };
      if (!gone.first_offset || gone.first_offset <= at) throw new Error("A part of the log is not kept, and the server does not say where it continues.");
      parts.push(`\n[${gone.first_offset - at} bytes are not kept]\n`);
      at = gone.first_offset;
      continue;
    }
    if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
    parts.push(await answer.blob());
    const next = Number(answer.headers.get("Perdure-Log-Next"));
    onBytes(next);
    if (!(next > at) || next >= Number(answer.headers.get("Perdure-Log-End"))) break;
    at = next;
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(parts, { type: "text/plain" }));
  link.download = `${id}.log`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
