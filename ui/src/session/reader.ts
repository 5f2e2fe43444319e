import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { need } from "../../client";
import { api, stream } from "../app/api";
import { useFrame } from "../app/hooks";
import type { Event, Frame, Session } from "../event/types";
import type { Texts } from "./texts";
import { Transcript, type Denial, type Entry, type Turn } from "./transcript";

const pageSize = 200; // events of one request
const firstPages = 2; // that a page starts with; earlier ones are read on demand

// eventPages reads the events after a seq up to another one, newest page first.
async function eventPages(id: string, after: number, to: number, signal?: AbortSignal): Promise<Event[]> {
  const starts: number[] = [];
  for (let at = after; at < to; at += pageSize) starts.push(at);
  const pages = await Promise.all(
    starts.map((at) =>
      need(api.GET("/v1/sessions/{id}/events", { signal, params: { path: { id }, query: { after: String(at), limit: Math.min(pageSize, to - at) } }, headers: { Accept: "application/json" } })),
    ),
  );
  return pages.flatMap((p) => (p as { items: Event[] }).items);
}

export type Reading = {
  id: string;
  session: Session | undefined;
  error: unknown;
  loading: boolean;
  entries: readonly Entry[];
  texts: Texts; // of the entries that grow
  turn: Turn | undefined;
  turns: number; // that were read, the running one included
  context: number; // tokens of the last model call; 0: not known
  denials: readonly Denial[];
  earlier: boolean; // there are events before the first entry
  readEarlier: () => Promise<void>;
};

// useTranscript reads the newest part of a session and follows it. What the page has stays while the
// server is away.
export function useTranscript(id: string): Reading {
  const client = useQueryClient();
  const session = useQuery({ queryKey: ["session", id], queryFn: ({ signal }) => need(api.GET("/v1/sessions/{id}", { signal, params: { path: { id } } })) as Promise<Session> });
  const events = useRef<Event[]>([]); // without gaps
  const [fold, setFold] = useState(() => new Transcript());
  const [version, setVersion] = useState(0);
  const [generation, setGeneration] = useState(0); // rises when everything is read again
  const draw = useFrame(() => setVersion((n) => n + 1));
  const drawTexts = useFrame(() => fold.texts.flush());

  const start = useQuery({
    queryKey: ["events", id, generation],
    queryFn: async ({ signal }) => {
      const s = await client.fetchQuery({ queryKey: ["session", id], queryFn: () => need(api.GET("/v1/sessions/{id}", { params: { path: { id } } })) as Promise<Session>, staleTime: 0 });
      const after = Math.max(0, s.last_seq - firstPages * pageSize);
      return { after, events: await eventPages(id, after, s.last_seq, signal) };
    },
    staleTime: Infinity,
    gcTime: 0,
  });
  const first = start.data;

  const refresh = useCallback(() => void client.invalidateQueries({ queryKey: ["session", id] }), [client, id]);

  useEffect(() => {
    if (!first) return;
    const fresh = new Transcript();
    events.current = [...first.events];
    first.events.forEach((e) => fresh.add(e));
    fresh.lastSeq = Math.max(fresh.lastSeq, first.after);
    setFold(fresh);
    draw();
    const onFrame = (f: Frame) => {
      if (f.type === "snapshot" || f.type === "reset") return setGeneration((n) => n + 1);
      const e = f.data as Event;
      if (typeof e.seq !== "number" || !e.type) {
        const changed = fresh.frame(f.type, f.data);
        if (changed === "entry") draw();
        if (changed === "text") drawTexts();
        return;
      }
      if (!fresh.add(e)) return;
      events.current.push(e);
      if (e.type.startsWith("session.") || e.type.startsWith("turn.") || e.type.startsWith("task.") || e.type.startsWith("approval.")) refresh();
      draw();
    };
    return stream.follow({ name: id, after: () => fresh.lastSeq, onFrame });
  }, [first, id, draw, drawTexts, refresh]);

  const readEarlier = useCallback(async () => {
    const have = events.current[0]?.seq ?? 1;
    const after = Math.max(0, have - 1 - firstPages * pageSize);
    const older = await eventPages(id, after, have - 1);
    events.current = [...older, ...events.current];
    fold.refold(events.current);
    draw();
  }, [id, fold, draw]);

  return useMemo(
    () => ({
      id,
      session: session.data,
      error: session.error ?? start.error,
      loading: !first,
      entries: fold.entries.slice(),
      texts: fold.texts,
      turn: fold.turn,
      turns: fold.turns,
      context: fold.context,
      denials: fold.denials,
      earlier: (events.current[0]?.seq ?? 1) > 1,
      readEarlier,
    }),
    // version stands for what the fold and the events contain
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [id, session.data, session.error, start.error, first, fold, version, readEarlier],
  );
}
