import { Link } from "@tanstack/react-router";
import { oneLine } from "../text/text";
import { decimal, moneyOf, plus, type CostLine, type CostReport, type Month } from "./money";
import type { Split } from "./read";
import { costWords } from "./words";

const named = 4; // parts with a colour of their own; the others share one

type Metric = "cost" | "tokens";

const valueOf = (l: CostLine, metric: Metric): number => (metric === "cost" ? Number(moneyOf(l, "usd")) / 1e6 : l.input_tokens + l.output_tokens);

// Days shows a bar for each day of a month, divided by model or tool. The table below it has the same
// figures.
export function Days({ report, month, split, metric: wanted }: { report: CostReport; month: Month; split: Split; metric: string | undefined }) {
  const total = valueOf(report.total, "cost");
  const metric: Metric = wanted === "tokens" || (wanted !== "cost" && total === 0) ? "tokens" : "cost";
  const sums = new Map<string, number>();
  for (const l of report.items) sums.set(l.part ?? "", (sums.get(l.part ?? "") ?? 0) + valueOf(l, metric));
  const parts = [...sums.entries()].sort(([, a], [, b]) => b - a).map(([p]) => p);
  const days = daysOf(month).map((day) => ({ day, lines: report.items.filter((l) => l.key === day) }));
  const most = Math.max(0, ...days.map((d) => d.lines.reduce((n, l) => n + valueOf(l, metric), 0)));
  const unit = metric === "cost" ? "usd" : "tokens";
  return (
    <section aria-labelledby="days-title">
      <div className="row-of title-row">
        <h2 id="days-title">
          By day and {split}, in {unit}
        </h2>
        <Choices name="Divide by" options={["model", "tool"]} chosen={split} param="split" />
        <Choices name="Show" options={["cost", "tokens"]} chosen={metric} param="metric" />
      </div>
      <div className="bars" role="img" aria-label={`A bar for each day of ${month.name}, at most ${show(most, metric)} ${unit}. The table below has the figures.`}>
        <span className="most soft">{most > 0 ? `${show(most, metric)} ${unit}` : "nothing"}</span>
        {days.map(({ day, lines }) => (
          <span key={day} className="bar" title={`${day}: ${costWords(plus(lines))}`}>
            <span className="stack-of">
              {lines.some((l) => l.unpriced > 0) && <i className="mark tone-warn">?</i>}
              {[...lines]
                .sort((a, b) => parts.indexOf(b.part ?? "") - parts.indexOf(a.part ?? ""))
                .map((l) => {
                  const share = most > 0 ? (100 * valueOf(l, metric)) / most : 0;
                  return share > 0 && <i key={l.part} className={`part p${Math.min(parts.indexOf(l.part ?? ""), named)}`} style={{ height: `${share}%` }} />;
                })}
            </span>
            <small>{Number(day.slice(8)) % 5 === 0 || day.endsWith("-01") ? Number(day.slice(8)) : ""}</small>
          </span>
        ))}
      </div>
      <ul className="legend">
        {parts.slice(0, named).map((p, i) => (
          <li key={p}>
            <i className={`part p${i}`} /> {oneLine(p, 60)}
          </li>
        ))}
        {parts.length > named && (
          <li>
            <i className={`part p${named}`} /> {parts.length - named} others
          </li>
        )}
        {report.total.unpriced > 0 && (
          <li>
            <i className="tone-warn">?</i> a price is unknown
          </li>
        )}
      </ul>
      <details className="twin">
        <summary>The same as a table</summary>
        <table className="figures-table">
          <thead>
            <tr>
              <th scope="col">Day</th>
              <th scope="col">{split === "model" ? "Model" : "Tool"}</th>
              <th scope="col">Cost</th>
              <th scope="col">Model calls</th>
              <th scope="col">Tokens in, out</th>
            </tr>
          </thead>
          <tbody>
            {report.items.map((l) => (
              <tr key={`${l.key} ${l.part}`}>
                <td>{l.key}</td>
                <td>{oneLine(l.part ?? "", 80)}</td>
                <td className={l.unpriced ? "tone-warn" : undefined}>{costWords(l)}</td>
                <td>{l.model_calls}</td>
                <td>
                  {l.input_tokens.toLocaleString("en")}, {l.output_tokens.toLocaleString("en")}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </section>
  );
}

function show(n: number, metric: Metric): string {
  return metric === "cost" ? decimal(BigInt(Math.round(n * 1e6))) : n.toLocaleString("en");
}

function daysOf(month: Month): string[] {
  const days = [];
  for (let at = Date.parse(month.since); at < Date.parse(month.until); at += 86_400_000) days.push(new Date(at).toISOString().slice(0, 10));
  return days;
}

function Choices({ name, options, chosen, param }: { name: string; options: string[]; chosen: string; param: "split" | "metric" }) {
  return (
    <nav className="chips" aria-label={name}>
      {options.map((o) => (
        <Link key={o} to="/costs" search={(before) => ({ ...before, [param]: o })} resetScroll={false} aria-current={o === chosen ? "true" : undefined}>
          {o}
        </Link>
      ))}
    </nav>
  );
}
