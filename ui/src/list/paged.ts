import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useRef } from "react";
import { RequestFailed } from "../../client";
import { queries } from "../app/api";
import { serverNow } from "../app/clock";
import { usePaused, useSettled } from "../app/hooks";
import { toRead, withPage, type Order, type Page, type Pages } from "./pages";

// List is a list that is read page by page. key is that of its pages, the same for the same filter, and
// memoized; read and order do not change while key does not.
export type List<T> = {
  key: readonly unknown[];
  read: (cursor: string, signal: AbortSignal) => Promise<{ items: T[] | null; next?: string | undefined }>;
  order: Order<T>;
};

// News says when the pages in view are read again: every so many ms, unless isLive says of the rows at
// both ends of the view that the stream has them, and when total changes.
export type News = { everyMs: number | false; total?: number | undefined; isLive?: (id: string) => boolean };

type Named = { id: string };

// usePagedList reads a list page by page. Of the pages that were read, only those with the rows in view
// are read again; setView says which rows these are.
export function usePagedList<T extends Named>(list: List<T>, news: News) {
  const pages = useInfiniteQuery<Page<T>, Error, Pages<T>, readonly unknown[], string>({
    queryKey: list.key,
    queryFn: ({ pageParam, signal }) => readPage(list, pageParam, signal),
    initialPageParam: "",
    getNextPageParam: (last) => last.next || undefined,
    staleTime: Infinity,
    structuralSharing: false,
    placeholderData: keepPreviousData,
  });
  return { pages, setView: useReread(list, news) };
}

async function readPage<T>(list: List<T>, cursor: string, signal: AbortSignal): Promise<Page<T>> {
  const page = await list.read(cursor, signal);
  const readAt = serverNow();
  return { ...(page.next ? { next: page.next } : {}), items: (page.items ?? []).map((t) => ({ ...t, readAt })), readAt };
}

// useReread reads the pages with the rows in view again. It returns how to say which rows are in view.
function useReread<T extends Named>(list: List<T>, { everyMs, total, isLive }: News) {
  const paused = usePaused();
  const view = useRef<readonly string[]>([]);
  const changedAt = useRef(0);
  const live = useRef(isLive);
  useEffect(() => {
    live.current = isLive;
  });
  const { refetch } = useQuery({
    queryKey: ["view", ...list.key],
    queryFn: async ({ signal }) => {
      const known = queries.getQueryData<Pages<T>>(list.key);
      const ends = [view.current[0], view.current.at(-1)].filter((id) => id !== undefined);
      const before = ends.length > 0 && ends.every((id) => live.current?.(id)) ? changedAt.current : Math.max(changedAt.current, serverNow() - (everyMs || 2000) / 2);
      for (const cursor of known ? toRead(known, view.current, before) : []) await reread(list, cursor, signal);
      return null;
    },
    enabled: !paused,
    refetchInterval: everyMs,
    gcTime: 0,
  });
  const known = useRef(total);
  useEffect(() => {
    if (known.current !== undefined && known.current !== total && !paused) {
      changedAt.current = serverNow();
      void refetch();
    }
    known.current = total;
  }, [total, paused, refetch]);
  return useCallback(
    (ids: readonly string[]) => {
      view.current = ids;
      if (!paused) void refetch();
    },
    [paused, refetch],
  );
}

// changeRow shows a change that the server has accepted, until the row is read again.
export function changeRow<T extends Named>(key: readonly unknown[], id: string, change: Partial<T>) {
  const changed = (p: Page<T>) => (p.items.some((t) => t.id === id) ? { ...p, items: p.items.map((t) => (t.id === id ? { ...t, ...change } : t)) } : p);
  queries.setQueriesData<Pages<T>>({ queryKey: key }, (all) => all && { ...all, pages: all.pages.map(changed) });
}

// readAgain has the pages in view of lists read at once, because this page has changed something in them.
// key is the beginning of the keys of the lists.
export function readAgain(key: readonly unknown[]) {
  queries.setQueriesData<Pages<Named>>({ queryKey: key }, (all) => all && { ...all, pages: all.pages.map((p) => ({ ...p, readAt: 0 })) });
  return queries.invalidateQueries({ queryKey: ["view", ...key] });
}

// useReadOn returns how to read the next page of a list, unless it is being read.
export function useReadOn({ hasNextPage, isFetchingNextPage, fetchNextPage }: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown }) {
  return useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
}

// useView says which rows of a virtual list are in view, once they have settled.
export function useView(rows: readonly Named[], shown: readonly { index: number }[], setView: (ids: readonly string[]) => void) {
  const seen = useSettled(`${rows[shown[0]?.index ?? 0]?.id} ${rows[shown.at(-1)?.index ?? 0]?.id}`, 200);
  useEffect(() => setView(seen.split(" ")), [seen, setView]);
}

// reread reads one page again. If its cursor is no longer known, the list begins anew.
async function reread<T extends Named>(list: List<T>, cursor: string, signal: AbortSignal) {
  const queryKey = list.key;
  try {
    const fresh = await readPage(list, cursor, signal);
    // a page that is being added would bring the pages before it back as they were
    if (queries.isFetching({ queryKey }) === 0) queries.setQueryData<Pages<T>>(queryKey, (all) => all && withPage(all, cursor, fresh, list.order));
  } catch (err) {
    if (!(err instanceof RequestFailed && err.status === 400)) throw err;
    void queries.resetQueries({ queryKey });
  }
}
