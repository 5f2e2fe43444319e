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
