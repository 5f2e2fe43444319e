import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { need } from "../../client";
import { api } from "../app/api";
import { useNow } from "../app/hooks";
import { State } from "../app/icon";
import { Button, Failure } from "../app/pieces";
import { useMay } from "../principal/principal";
import { useBudgets } from "../schedule/read";
import { inZone, until } from "../schedule/when";
import { oneLine } from "../text/text";
import { BudgetDialog, RemoveBudget } from "./edit";
import { micros, periodWords, standingLook, standingWords, subjectWords, type Standing } from "./money";
import { useEntries } from "./read";

const entries = 50; // of a ledger, the latest

// Budgets lists the budgets with their standing. The selected one shows its ledger.
export function Budgets({ selected }: { selected: string | undefined }) {
  const read = useBudgets();
  const { may, why } = useMay("admin");
  const [adding, setAdding] = useState(false);
  const all = ((read.data?.items ?? []) as Standing[]).toSorted((a, b) => a.percent_left - b.percent_left);
  return (
    <section aria-labelledby="budgets-title" id="budgets">
      <div className="row-of title-row">
        <h2 id="budgets-title">Budgets</h2>
        {may ? <Button onPress={() => setAdding(true)}>New budget</Button> : <span className="soft small">{why}</span>}
      </div>
      {adding && <BudgetDialog onClose={() => setAdding(false)} />}
      {read.error && !read.data ? (
        <Failure error={read.error} onRetry={() => void read.refetch()} />
      ) : read.data && all.length === 0 ? (
        <p className="soft">There are no budgets: nothing limits what agents spend. A budget warns, pauses or stops the sessions of an agent, a user or the org, or one session.</p>
      ) : (
        <ul className="budgets">
          {all.map((b) => (
            <li key={b.id}>
              <Budget b={b} open={b.id === selected} may={may} />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function Budget({ b, open, may }: { b: Standing; open: boolean; may: boolean }) {
  const now = useNow(30_000);
  const [ask, setAsk] = useState<"edit" | "remove">();
  return (
    <article className="budget" aria-label={`Budget of ${subjectWords(b)}, ${b.currency}`} data-testid="budget">
      <div className="row-of">
        <State look={standingLook(b.state)} />
        <strong dir="auto">
          {b.scope === "session" ? <SessionName id={b.subject} /> : subjectWords(b)}
        </strong>
        <span className="soft small">
          {periodWords(b.period)}
          {b.resets_at && `, the next ${until(b.resets_at, now)}`}
        </span>
        <span className="grow" />
        <Link className="button" to="/costs" search={(before) => ({ ...before, budget: open ? undefined : b.id })} resetScroll={false} aria-expanded={open}>
          Ledger
        </Link>
        {may && <Button onPress={() => setAsk("edit")}>Change…</Button>}
        {may && <Button onPress={() => setAsk("remove")}>Remove…</Button>}
      </div>
      <Meter b={b} />
      <p className="small soft">
        {standingWords(b)} · {b.remaining} left{micros(b.reserved) > 0n && `, ${b.reserved} reserved by running work`} ·{" "}
        {micros(b.soft) > 0n && `pauses at ${b.soft} · `}
        {b.action === "warn" ? `only warns at ${b.limit}` : `${b.action === "pause" ? "pauses" : "stops"} at ${b.limit}`}
      </p>
      {open && <Ledger b={b} />}
      {ask === "edit" && <BudgetDialog budget={b} onClose={() => setAsk(undefined)} />}
      {ask === "remove" && <RemoveBudget budget={b} onClose={() => setAsk(undefined)} />}
    </article>
  );
}

function SessionName({ id }: { id: string }) {
  const { data } = useQuery({
    queryKey: ["title", id],
    staleTime: 300_000,
    retry: false,
    queryFn: async ({ signal }) => (await need(api.GET("/v1/sessions/{id}", { signal, params: { path: { id } } }))).title ?? "",
  });
  return (
    <>
      session{" "}
      <Link to="/sessions/$id" params={{ id }}>
        {oneLine(data || id, 60)}
      </Link>
    </>
  );
}

// Meter shows what is spent and reserved, with the soft and the hard line.
function Meter({ b }: { b: Standing }) {
  const limit = Math.max(1, Number(micros(b.limit)));
  const spent = Number(micros(b.spent));
  const most = Math.max(limit, spent) * 1.04;
  const at = (n: number) => `${Math.min(100, (100 * n) / most)}%`;
  const soft = Number(micros(b.soft));
  return (
    <div className="budget-meter" role="img" aria-label={`${standingWords(b)}${soft > 0 ? `, soft line at ${b.soft}` : ""}, hard line at ${b.limit}`}>
      <i className={`spent tone-${standingLook(b.state).tone}`} style={{ width: at(spent) }} />
      <i className="reserved" style={{ left: at(spent), width: at(Number(micros(b.reserved))) }} />
      {soft > 0 && <i className="line-at soft-line" style={{ left: at(soft) }} />}
      <i className="line-at hard-line" style={{ left: at(limit) }} />
    </div>
  );
}

// Ledger is what a budget counted, the latest entry first.
function Ledger({ b }: { b: Standing }) {
  const read = useEntries(b.id, entries);
  if (read.error && !read.data) return <Failure error={read.error} onRetry={() => void read.refetch()} />;
  if (!read.data) return <p className="soft small">Loading…</p>;
  return (
    <div className="table-box" tabIndex={0} role="region" aria-label="Ledger">
      <table className="figures-table ledger" data-testid="ledger">
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Entry</th>
            <th scope="col">Amount</th>
            <th scope="col">Model, tool or person</th>
            <th scope="col">Session</th>
          </tr>
        </thead>
        <tbody>
          {read.data.map((e) => (
            <tr key={`${e.session_id} ${e.work}`}>
              <td>{inZone(e.at, Intl.DateTimeFormat().resolvedOptions().timeZone)}</td>
              <td>{e.kind === "set" ? "limit set" : oneLine(e.kind, 40)}</td>
              <td className={e.unpriced ? "tone-warn" : undefined}>
                {e.unpriced ? "unknown" : e.amount}
                {e.estimate && !e.unpriced && " (estimate)"}
              </td>
              <td>{oneLine(e.name, 60)}</td>
              <td>
                {e.session_id && (
                  <Link to="/sessions/$id" params={{ id: e.session_id }}>
                    {oneLine(e.session_id, 20)}
                  </Link>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {read.data.length === entries && (
        <p className="soft small">
          The last {entries} entries. All of them: <code>perdure budget ledger {b.id} --limit 0</code>
        </p>
      )}
    </div>
  );
}
