import { useQuery } from "@tanstack/react-query";
import { need } from "../../client";
import { api } from "../app/api";
import type { CostReport, Entry, Month } from "./money";

export const groups = ["session", "agent", "model", "tool", "schedule"] as const;
export type Group = (typeof groups)[number];
export type Split = "model" | "tool";

// useCosts reads a report of a month. The server reads the journals for it, so it is asked rarely.
export function useCosts(month: Month, group: Group | "day", split?: Split) {
  const query = { group, since: `${month.since}T00:00:00Z`, until: `${month.until}T00:00:00Z`, ...(split ? { split } : {}) };
  return useQuery({
    queryKey: ["costs", query],
    queryFn: ({ signal }) => need<CostReport>(api.GET("/v1/costs", { signal, params: { query } })),
    refetchInterval: 30_000,
    placeholderData: (before) => (before?.group === group ? before : undefined),
  });
}

// useEntries reads the latest entries of a budget, the latest first.
export function useEntries(id: string, limit: number) {
  return useQuery({
    queryKey: ["budgets", id, "entries", limit],
    queryFn: async ({ signal }) => ((await need(api.GET("/v1/budgets/{budget}/entries", { signal, params: { path: { budget: id }, query: { limit } } }))).items as Entry[]).toReversed(),
    refetchInterval: 10_000,
    placeholderData: (before) => before,
  });
}

// save gives a file to the browser.
export function save(name: string, type: string, text: string) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
