import { useQuery } from "@tanstack/react-query";
import { need, type Schemas } from "../../client";
import { api } from "../app/api";
import type { Session } from "../event/types";
import { oneLine } from "../text/text";
import type { Reading } from "./reader";

// useSpend reads what a session and its subagents cost so far, and the budgets that stop it. It is read
// again when a turn ends.
function useSpend(session: Session, running: boolean) {
  return useQuery({
    queryKey: ["spend", session.id, running],
    queryFn: async ({ signal }) => {
      const [costs, budgets] = await Promise.all([
        need(api.GET("/v1/costs", { signal, params: { query: { group: "session", session: session.id } } })),
        need(api.GET("/v1/sessions/{id}/budgets", { signal, params: { path: { id: session.id } } })),
      ]);
      return { total: costs.total as Schemas["CostLine"], budgets: budgets.budgets as Schemas["Standing"][] };
    },
    placeholderData: (before) => before,
    retry: false, // figures beside the work: without them, the page is complete
  });
}

// Figures shows the context that the model sees, the spend, and the budget that is nearest to its end.
export function Figures({ session, reading }: { session: Session; reading: Reading }) {
  const { data } = useSpend(session, !!reading.turn);
  const nearest = data?.budgets.toSorted((a, b) => a.percent_left - b.percent_left)[0];
  return (
    <span className="figures small soft">
      {reading.context > 0 && <span title="Tokens of the last model call: what the model saw, and what it wrote">{reading.context.toLocaleString("en")} tokens of context</span>}
      {data && data.total.model_calls > 0 && <Cost line={data.total} />}
      {nearest && (
        <span className={nearest.percent_left <= 10 ? "tone-bad" : nearest.percent_left <= 25 ? "tone-warn" : undefined}>
          <meter min={0} max={100} value={100 - nearest.percent_left} aria-label="Part of the budget that is spent" /> {oneLine(nearest.spent, 24)} of {oneLine(nearest.limit, 24)} {oneLine(nearest.currency, 12)}
          {nearest.state !== "ok" && ` (${oneLine(nearest.state.replaceAll("_", " "), 30)})`}
        </span>
      )}
    </span>
  );
}

// Cost shows an estimate. A call without a known price is named, and never counts as nothing.
function Cost({ line }: { line: Schemas["CostLine"] }) {
  const known = Object.entries(line.cost).map(([currency, amount]) => (currency.toLowerCase() === "usd" ? `$${oneLine(String(amount), 16)}` : `${oneLine(String(amount), 16)} ${oneLine(currency, 12)}`));
  return (
    <span title="An estimate, from recorded usage and the price table">
      {known.length > 0 && `≈ ${known.join(" + ")}`}
      {line.unpriced > 0 && (
        <span className="tone-warn">
          {known.length > 0 ? " + " : ""}price of {line.unpriced} model {line.unpriced === 1 ? "call" : "calls"} unknown
        </span>
      )}
    </span>
  );
}
