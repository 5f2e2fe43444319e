import type { CostLine } from "../cost/money";
import { oneLine } from "../text/text";
import type { Reading } from "./reader";
import type { Spend } from "./spend";

// Figures shows the context that the model sees, the spend, and the budget that is nearest to its end.
export function Figures({ data, reading }: { data: Spend | undefined; reading: Reading }) {
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
export function Cost({ line }: { line: Pick<CostLine, "cost" | "unpriced"> }) {
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
