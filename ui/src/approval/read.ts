import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { need } from "../../client";
import { api } from "../app/api";
import type { Approval, Session } from "../event/types";
import { memberText } from "../text/exact";

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

// useHistory reads the approvals that were decided, the last requested first.
export function useHistory(enabled = true) {
  const pages = useInfiniteQuery({
    queryKey: ["approvals", "newest"],
    enabled,
    queryFn: ({ pageParam, signal }) => need(api.GET("/v1/approvals", { signal, params: { query: { order: "newest", limit: 100, ...(pageParam ? { cursor: pageParam } : {}) } } as never })) as Promise<{ items: Approval[]; next?: string }>,
    initialPageParam: "",
    getNextPageParam: (last) => last.next || undefined,
  });
  const rows = useMemo(() => pages.data?.pages.flatMap((p) => p.items).filter((a) => a.state !== "open") ?? [], [pages.data]);
  return { pages, rows };
}
