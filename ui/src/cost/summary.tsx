import { Icon } from "../app/icon";
import { decimal, forecast, moneyOf, plus, type CostReport, type Month } from "./money";
import { costWords } from "./words";

// Summary shows the figures of a month: today, so far, and where its pace leads.
export function Summary({ report, month, now }: { report: CostReport; month: Month; now: number }) {
  const total = report.total;
  const today = new Date(now).toISOString().slice(0, 10);
  const current = today.startsWith(month.name);
  const ofToday = plus(report.items.filter((l) => l.key === today));
  const ahead = current ? forecast(moneyOf(total, "usd"), Date.parse(month.since), Date.parse(month.until), now) : undefined;
  const fresh = total.input_tokens - total.cached_tokens;
  return (
    <section aria-label="Summary">
      <dl className="figures">
        {current && <Figure name="Today" value={costWords(ofToday)} id="today" />}
        <Figure name={current ? "This month" : month.name} value={costWords(total)} id="month-total" />
        {ahead !== undefined && (
          <Figure name="Forecast for the month" value={`${total.unpriced ? "at least " : ""}${rounded(ahead)} usd`} note="an estimate, at the pace so far" id="forecast" />
        )}
        <Figure
          name="Failed model calls"
          value={total.failed_model_calls ? costWords({ cost: total.failed_cost, unpriced: total.failed_unpriced, model_calls: total.failed_model_calls }) : "none"}
          note={total.failed_model_calls ? `${total.failed_model_calls} of ${total.model_calls}, as before a retry` : `of ${total.model_calls}`}
          id="waste"
        />
        <div className="figure">
          <dt>Input tokens</dt>
          <dd>
            {total.input_tokens.toLocaleString("en")}
            {total.input_tokens > 0 && <meter className="share" min={0} max={total.input_tokens} value={total.cached_tokens} aria-label="Share of cached tokens" />}
            <small>
              {fresh.toLocaleString("en")} fresh, {total.cached_tokens.toLocaleString("en")} cached
              {total.input_tokens > 0 && ` (${Math.round((100 * total.cached_tokens) / total.input_tokens)} %)`}
            </small>
          </dd>
        </div>
        <Figure name="Output tokens" value={total.output_tokens.toLocaleString("en")} note={`${total.model_calls} model calls, ${total.tool_calls} tool calls`} id="output" />
      </dl>
    </section>
  );
}

// rounded returns an amount to the cent, or with more digits where it would otherwise be 0.
function rounded(n: bigint): string {
  if (n > 0n && n < 10_000n) return decimal(n);
  return decimal(((n + 5_000n) / 10_000n) * 10_000n);
}

function Figure({ name, value, note, id }: { name: string; value: string; note?: string; id: string }) {
  const unknown = value.startsWith("unknown");
  return (
    <div className="figure" data-testid={id}>
      <dt>{name}</dt>
      <dd>
        {unknown ? (
          <span className="tone-warn">
            <Icon name="ask" /> {value}
          </span>
        ) : (
          value
        )}
        {note && <small>{note}</small>}
      </dd>
    </div>
  );
}
