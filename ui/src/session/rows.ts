import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { need } from "../../client";
import { api } from "../app/api";
import { useLiveList } from "../event/list";
import type { Session } from "../event/types";

// hasWords reports whether a title has each word of a text, as the server decides it for all sessions.
function hasWords(title: string, text: string): boolean {
  const all = title.toLowerCase();
  return text.toLowerCase().split(/\s+/).every((word) => all.includes(word));
}

type SessionState = "started" | "active" | "idle" | "waiting_for_tool_results" | "paused";

// useSessions joins the pages that were read with what the stream said since. What needs a person comes
// first, then the newest.
export function useSessions(state: string | undefined, text: string) {
  const pages = useInfiniteQuery({
    queryKey: ["sessions", state ?? "", text],
    queryFn: ({ pageParam, signal }) =>
      need(api.GET("/v1/sessions", { signal, params: { query: { limit: 100, ...(pageParam ? { cursor: pageParam } : {}), ...(state ? { state: state as SessionState } : {}), ...(text ? { text } : {}) } } })),
    placeholderData: keepPreviousData,
    initialPageParam: "",
    getNextPageParam: (last) => last.next || undefined,
  });
  const live = useLiveList<Session>("sessions");
  const rows = useMemo(() => {
    const all = new Map<string, Session>();
    pages.data?.pages.forEach((p) => p.items.forEach((s) => all.set(s.id, s)));
    if (pages.isPlaceholderData) all.forEach((s, id) => !hasWords(s.title, text) && all.delete(id)); // of the words before
    live.forEach((s, id) => (all.has(id) || hasWords(s.title, text)) && all.set(id, s));
    const rank = (s: Session) => (s.needs_you > 0 ? 0 : s.unknown > 0 ? 1 : 2);
    return [...all.values()]
      .filter((s) => !state || s.state === state)
      .sort((a, b) => rank(a) - rank(b) || Date.parse(b.created_at) - Date.parse(a.created_at) || (a.id < b.id ? 1 : -1));
  }, [pages.data, pages.isPlaceholderData, live, state, text]);
  return { pages, rows };
}

