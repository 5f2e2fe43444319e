import { Link, getRouteApi } from "@tanstack/react-router";
import { useNow, useTitle } from "../app/hooks";
import { Icon } from "../app/icon";
import { ActionLines } from "../app/lines";
import { Button, Failure } from "../app/pieces";
import { line } from "../text/shell";
import { clock, oneLine, plural } from "../text/text";
import { Budgets } from "./budgets";
import { Days } from "./days";
import { Groups } from "./groups";
import { csv, monthBeside, monthOf, type CostReport, type Month } from "./money";
import { groups, save, useCosts, type Group, type Split } from "./read";
import { Summary } from "./summary";
import "../session/list.css";
import "../session/session.css";
import "../task/task.css";
import "../schedule/schedule.css";
import "./cost.css";

const route = getRouteApi("/costs");

export function CostPage() {
  const search = route.useSearch();
  const now = useNow(60_000);
  const month = monthOf(search.month, now);
  const split: Split = search.split === "tool" ? "tool" : "model";
  const group: Group = groups.find((g) => g === search.group) ?? "session";
  const days = useCosts(month, "day", split);
  const parts = useCosts(month, group);
  useTitle(`Costs of ${month.name}`);
  return (
    <>
      <header className="head">
        <h1>Costs</h1>
        <Months month={month} current={monthOf(undefined, now).name} />
        <span className="grow" />
        <Downloads report={parts.data} month={month} />
      </header>
      <div className="scroll" tabIndex={0} role="region" aria-label="Costs">
        <div className="costs">
          {days.error && !days.data ? (
            <Failure error={days.error} onRetry={() => void days.refetch()} />
          ) : days.data ? (
            <>
              <Unknown report={days.data} />
              <Summary report={days.data} month={month} now={now} />
              <Days report={days.data} month={month} split={split} metric={search.metric} />
              <p className="soft small">
                An estimate: {oneLine(days.data.source, 300)}. Read at {clock(days.dataUpdatedAt)}, with prices as of {oneLine(days.data.prices_as_of, 40)}. Days and months are those of UTC.
              </p>
            </>
          ) : (
            <p role="status">Loading…</p>
          )}
          <Groups report={parts.data} error={parts.error} group={group} />
          <ActionLines
            cli={line("perdure", "cost", "report", "--by", group, "--since", month.since, "--until", month.until)}
            curl={{ method: "GET", path: `/v1/costs?group=${group}&since=${month.since}T00:00:00Z&until=${month.until}T00:00:00Z` }}
          />
          <Budgets selected={search.budget} />
        </div>
      </div>
    </>
  );
}

function Months({ month, current }: { month: Month; current: string }) {
  const next = monthBeside(month.name, 1);
  const to = (name: string) => (before: object) => ({ ...before, month: name === current ? undefined : name });
  return (
    <nav className="months" aria-label="Month">
      <Link to="/costs" search={to(monthBeside(month.name, -1))} aria-label="The month before">
        ‹
      </Link>
      <span data-testid="month">{month.name}</span>
      {next <= current ? (
        <Link to="/costs" search={to(next)} aria-label="The month after">
          ›
        </Link>
      ) : (
        <span aria-hidden="true" className="soft">
          ›
        </span>
      )}
    </nav>
  );
}

function Downloads({ report, month }: { report: CostReport | undefined; month: Month }) {
  const name = `costs-${month.name}-by-${report?.group ?? ""}`;
  return (
    <span className="row-of">
      <Button isDisabled={!report} onPress={() => save(`${name}.csv`, "text/csv", csv(report!))}>
        CSV
      </Button>
      <Button isDisabled={!report} onPress={() => save(`${name}.json`, "application/json", JSON.stringify(report, null, 2) + "\n")}>
        JSON
      </Button>
    </span>
  );
}

// Unknown says which usage has no price. Its cost is not 0.
function Unknown({ report }: { report: CostReport }) {
  const { unpriced, unpriced_models: models } = report.total;
  if (!unpriced) return null;
  return (
    <div className="notice" role="note" data-testid="unknown-price">
      <p className="tone-warn">
        <Icon name="ask" /> <strong>The cost is unknown</strong>
      </p>
      <p>
        {plural(unpriced, "model call")} of {(models ?? []).map((m) => oneLine(m, 80)).join(", ")} {unpriced === 1 ? "has" : "have"} no known price, so the sums below are only what is known. Set PERDURE_PRICES to a file
        with your own prices, and restart the server.
      </p>
    </div>
  );
}
