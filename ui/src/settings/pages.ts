import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

const route = getRouteApi("/settings/$section");

// useItem returns what the address says is chosen, and the text of the filter.
export function useItem() {
  const { item, q = "", session } = route.useSearch();
  const navigate = route.useNavigate();
  return {
    item,
    q,
    session,
    filter: (text: string) => void navigate({ search: (s) => ({ ...s, q: text || undefined }), replace: true }),
    choose: (next: { item?: string | undefined; session?: string | undefined }) => void navigate({ search: (s) => ({ ...s, ...next }) }),
  };
}

type Page<T> = { items: T[] | null; next?: string | undefined };

// usePages reads a list page by page.
export function usePages<T>(key: readonly unknown[], read: (at: { limit: number; cursor?: string }, signal: AbortSignal) => Promise<Page<T>>, options: { enabled?: boolean; every?: number } = {}) {
  const found = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam, signal }) => read({ limit: 100, ...(pageParam ? { cursor: pageParam } : {}) }, signal),
    initialPageParam: "",
    getNextPageParam: (last: Page<T>) => last.next || undefined,
    enabled: options.enabled ?? true,
    ...(options.every ? { refetchInterval: options.every } : {}),
  });
  return { ...found, rows: found.data?.pages.flatMap((p) => p.items ?? []) };
}
