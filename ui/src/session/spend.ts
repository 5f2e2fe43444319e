import { useQuery } from "@tanstack/react-query";
import { need, type Schemas } from "../../client";
import { api } from "../app/api";
import type { CostLine } from "../cost/money";

// Spend is what a session and its subagents cost so far, also by turn, and the budgets that stop it.
export type Spend = { total: CostLine; turns: ReadonlyMap<string, CostLine>; budgets: Schemas["Standing"][] };

// useSpend reads what a session cost. It is read again when a turn starts or ends, even a turn that is
// shorter than the time for which an answer counts as fresh.
export function useSpend(id: string, { turns, turn }: { turns: number; turn: unknown }): Spend | undefined {
  const { data } = useQuery({
    queryKey: ["spend", id, turns, !turn],
    queryFn: async ({ signal }): Promise<Spend> => {
      const [costs, budgets] = await Promise.all([
        need(api.GET("/v1/costs", { signal, params: { query: { group: "turn", session: id } } })),
        need(api.GET("/v1/sessions/{id}/budgets", { signal, params: { path: { id } } })),
      ]);
      return { total: costs.total as CostLine, turns: new Map((costs.items as CostLine[]).map((l) => [l.key, l])), budgets: budgets.budgets as Schemas["Standing"][] };
    },
    placeholderData: (before) => before,
    retry: false, // figures beside the work: without them, the page is complete
  });
  return data;
}
