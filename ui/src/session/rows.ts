import { useMemo } from "react";
import { need } from "../../client";
import { api } from "../app/api";
import { liveOf, useLiveList } from "../event/list";
import type { Session } from "../event/types";
import { usePagedList, type List } from "../list/paged";
import { createdAt, newestFirst, withLive } from "../list/pages";

const readMs = 5000; // how often the rows in view are read, if the stream does not have them

// hasWords reports whether a title has each word of a text, as the server decides it for all sessions.
function hasWords(title: string, text: string): boolean {
  const all = title.toLowerCase();
  return text.toLowerCase().split(/\s+/).every((word) => all.includes(word));
}

type SessionState = "started" | "active" | "idle" | "waiting_for_tool_results" | "paused";

// useSessions joins the pages that were read with what the stream said since. What needs a person comes
// first, then the newest.
export function useSessions(state: string | undefined, text: string) {
  const live = useLiveList<Session>("sessions");
  const list = useMemo(() => sessionList(state, text), [state, text]);
  const { pages, setView } = usePagedList(list, { everyMs: readMs, isLive: (id) => live.has(id) });
  const { data, isPlaceholderData } = pages;
  const rows = useMemo(() => {
    const all = withLive(data, liveOf(live), createdAt);
    const read = new Set(data?.pages.flatMap((p) => p.items.map((s) => s.id)));
    all.forEach((s, id) => (!read.has(id) || isPlaceholderData) && !hasWords(s.title, text) && all.delete(id)); // of the words before, or of the stream
    const rank = (s: Session) => (s.needs_you > 0 ? 0 : s.unknown > 0 ? 1 : 2);
    return [...all.values()].filter((s) => !state || s.state === state).sort((a, b) => rank(a) - rank(b) || newestFirst(a, b));
  }, [data, isPlaceholderData, live, state, text]);
  return { pages, rows, setView };
}

// sessionList is the list of a filter.
function sessionList(state: string | undefined, text: string): List<Session> {
  const filter = { ...(state ? { state: state as SessionState } : {}), ...(text ? { text } : {}) };
  return {
    key: ["sessions", state ?? "", text],
    read: (cursor, signal) => need(api.GET("/v1/sessions", { signal, params: { query: { limit: 100, ...filter, ...(cursor ? { cursor } : {}) } } })) as Promise<{ items: Session[]; next?: string }>,
    order: newestFirst,
  };
}
