import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { need } from "../../client";
import { api, queries } from "../app/api";
import { liveOf, useLiveList } from "../event/list";
import type { Approval, Session } from "../event/types";
import { usePagedList, type List } from "../list/paged";
import { withLive, type Pages } from "../list/pages";
import { memberText } from "../text/exact";
import { byRisk, requestedAt } from "./order";

// Exact is an approval with the text of its arguments as the server sent it.
export type Exact = { approval: Approval; args: string };

// useExact reads one approval in full. Lists have shortened arguments.
export function useExact(id: string) {
  return useQuery({
    queryKey: ["approval", id],
    queryFn: async ({ signal }): Promise<Exact> => {
      const body = await need<string>(api.GET("/v1/approvals/{id}", { signal, params: { path: { id } }, parseAs: "text" }) as never);
      return { approval: JSON.parse(body) as Approval, args: memberText(body, "args") ?? "" };
    },
  });
}

const deepest = 8; // sessions of a path

// useAgentPath reads who asks: the session, and those that started it, the first one first.
export function useAgentPath(session: string) {
  return useQuery({
    queryKey: ["agent path", session],
    staleTime: 60_000,
    queryFn: async ({ signal }) => {
      const path: Session[] = [];
      for (let id: string | undefined = session; id && path.length < deepest; ) {
        const s: Session = await need(api.GET("/v1/sessions/{id}", { signal, params: { path: { id } } }));
        path.unshift(s);
        id = s.parent_session_id;
      }
      return path;
    },
  });
}

// useInbox joins the pages of open approvals that were read with what the stream said since, by risk, and
// of each risk the ones that wait longest first.
export function useInbox(total: number) {
  const live = useLiveList<Approval>("approvals");
  const { pages, setView } = usePagedList(inbox, { everyMs: readMs, total, isLive: (id) => live.has(id) });
  const { data, isPending } = pages;
  const rows = useMemo(() => (isPending ? [] : [...withLive(data, liveOf(live), requestedAt).values()].sort(byRisk)), [data, isPending, live]);
  return { pages, rows, setView };
}

const readMs = 10_000; // how often the rows in view are read, if the stream does not have them

const inbox: List<Approval> = {
  key: ["inbox"],
  read: (cursor, signal) => need(api.GET("/v1/approvals", { signal, params: { query: { state: "open", order: "risk", limit: 100, ...(cursor ? { cursor } : {}) } } })) as Promise<{ items: Approval[]; next?: string }>,
  order: byRisk,
};

// forget removes approvals from the pages that were read, because they were decided.
export function forget(decided: readonly Approval[]) {
  const ids = new Set(decided.map((a) => a.id));
  queries.setQueryData<Pages<Approval>>(inbox.key, (all) => all && { ...all, pages: all.pages.map((p) => ({ ...p, items: p.items.filter((a) => !ids.has(a.id)) })) });
}

// useHistory reads the approvals that were decided, the last requested first.
export function useHistory() {
  const pages = useInfiniteQuery({
    queryKey: ["approvals", "decided"],
    queryFn: ({ pageParam, signal }) => need(api.GET("/v1/approvals", { signal, params: { query: { state: "decided", order: "newest", limit: 100, ...(pageParam ? { cursor: pageParam } : {}) } } })) as Promise<{ items: Approval[]; next?: string }>,
    initialPageParam: "",
    getNextPageParam: (last) => last.next || undefined,
  });
  const rows = useMemo(() => pages.data?.pages.flatMap((p) => p.items) ?? [], [pages.data]);
  return { pages, rows };
}
