import type { Schemas } from "../../client";
import { costWords, type Cost } from "./words";

// RowCost is the cost of a row of a list. Nothing stands for what has not been added up yet, and for what
// has cost nothing. A cost that is not known is never 0.
export function RowCost({ cost }: { cost: Schemas["Cost"] | undefined }) {
  const words = cost ? costWords({ cost: (cost.amounts ?? {}) as Cost, unpriced: cost.unpriced }) : "-";
  if (words === "-") return <span className="cost" />;
  return (
    <span className={`cost small ${cost!.unpriced ? "tone-warn" : "soft"}`} title={words}>
      {cost!.unpriced ? "cost unknown" : words}
    </span>
  );
}
