import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { need } from "../../client";
import { api, server } from "../app/api";
import { Button, Failure } from "../app/pieces";
import { bytes, safe } from "../text/text";

const tailBytes = 64 << 10; // of the log that a page shows

// textOf decodes the chunks of a log.
function textOf(chunks: { bytes: string }[]): string {
  const parts = chunks.map((c) => Uint8Array.from(atob(c.bytes), (x) => x.charCodeAt(0)));
  const all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    all.set(p, at);
    at += p.length;
  }
  return new TextDecoder().decode(all);
}

// TaskLog shows the end of the log of a task, and follows it while the task runs.
export function TaskLog({ id, live }: { id: string; live: boolean }) {
  const [wrap, setWrap] = useState(true);
  const box = useRef<HTMLPreElement>(null);
  const log = useQuery({
    queryKey: ["log", id, live],
    queryFn: ({ signal }) => need(api.GET("/v1/tasks/{id}/log", { signal, params: { path: { id }, query: { offset: String(-tailBytes), limit: tailBytes } }, headers: { Accept: "application/json" } })),
    refetchInterval: live ? 1000 : false,
    staleTime: 0,
    placeholderData: (before) => before,
  });
  const data = log.data as { offset: number; end: number; chunks: { bytes: string }[] } | undefined;
  const text = data ? safe(textOf(data.chunks)) : "";
  const stick = useRef(true);
  useEffect(() => {
    if (box.current && stick.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  const download = async () => {
    const answer = await fetch(new URL(`v1/tasks/${encodeURIComponent(id)}/log?limit=1048576`, server), { headers: { Accept: "application/octet-stream" }, credentials: "same-origin" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await answer.blob());
    link.download = `${id}.log`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <section aria-labelledby="log-title">
      <div className="row-of">
        <h2 id="log-title">Log</h2>
        <span className="soft small">
          {data && (data.offset > 0 ? `the last ${bytes(data.end - data.offset)} of ${bytes(data.end)}` : bytes(data.end))}
          {live && " · follows"}
        </span>
        <label className="small row-of">
          <input type="checkbox" checked={wrap} onChange={(e) => setWrap(e.target.checked)} /> Wrap
        </label>
        <Button look="bare" onPress={() => void download()} isDisabled={!data?.end}>
          Download
        </Button>
      </div>
      {log.error && !data ? (
        <Failure error={log.error} />
      ) : (
        <pre
          ref={box}
          className="code"
          style={wrap ? undefined : { whiteSpace: "pre" }}
          tabIndex={0}
          aria-label="Output"
          onScroll={(e) => {
            const el = e.currentTarget;
            stick.current = el.scrollHeight - el.scrollTop - el.clientHeight < 40;
          }}
        >
          {text || (log.isPending ? "Loading…" : "(no output)")}
        </pre>
      )}
    </section>
  );
}
