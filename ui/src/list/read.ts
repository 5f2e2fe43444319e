import { useInfiniteQuery } from "@tanstack/react-query";

type Page<T> = { items: T[] | null; next?: string | undefined };

// usePages reads a list page by page.
export function usePages<T>(key: readonly unknown[], read: (at: { limit: number; cursor?: string }, signal: AbortSignal) => Promise<Page<T>>, options: { enabled?: boolean; every?: number; staleTime?: number } = {}) {
  const found = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam, signal }) => read({ limit: 100, ...(pageParam ? { cursor: pageParam } : {}) }, signal),
    initialPageParam: "",
    getNextPageParam: (last: Page<T>) => last.next || undefined,
    enabled: options.enabled ?? true,
    ...(options.staleTime === undefined ? {} : { staleTime: options.staleTime }),
    ...(options.every ? { refetchInterval: options.every } : {}),
  });
  return { ...found, rows: found.data?.pages.flatMap((p) => p.items ?? []) };
}
