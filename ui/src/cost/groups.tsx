import { Link } from "@tanstack/react-router";
import { useQueries } from "@tanstack/react-query";
import { need } from "../../client";
import { api } from "../app/api";
import { Failure } from "../app/pieces";
import { oneLine } from "../text/text";
import { moneyOf, type CostLine, type CostReport } from "./money";
import { groups, type Group } from "./read";
import { costWords } from "./words";

const listed = 100; // lines; a download has all

// Groups is the table of costs by session, agent, model, tool or schedule, the dearest first.
export function Groups({ report, error, group }: { report: CostReport | undefined; error: unknown; group: Group }) {
  const most = Math.max(1, ...(report?.items ?? []).map((l) => Number(moneyOf(l, "usd"))));
  const items = (report?.items ?? []).slice(0, listed);
  const titles = useTitles(group, items);
  return (
    <section aria-labelledby="groups-title">
      <div className="row-of title-row">
        <h2 id="groups-title">By {group}</h2>
        <nav className="chips" aria-label="Group by">
          {groups.map((g) => (
            <Link key={g} to="/costs" search={(before) => ({ ...before, group: g })} resetScroll={false} aria-current={g === group ? "true" : undefined}>
              {g}
            </Link>
          ))}
        </nav>
      </div>
      {error && !report ? (
        <Failure error={error} />
      ) : !report ? (
        <p role="status">Loading…</p>
      ) : (
        <div className="table-box" tabIndex={0} role="region" aria-label={`Costs by ${group}`}>
          <table className="figures-table" data-testid="groups">
            <thead>
              <tr>
                <th scope="col">{group[0]!.toUpperCase() + group.slice(1)}</th>
                <th scope="col">Cost</th>
                <th scope="col">Model calls</th>
                <th scope="col">Fresh in</th>
                <th scope="col">Cached in</th>
                <th scope="col">Out</th>
                <th scope="col">Tool calls</th>
                <th scope="col">Failed</th>
              </tr>
            </thead>
            <tbody>
              {items.map((l) => (
                <tr key={l.key}>
                  <th scope="row">
                    <Member group={group} line={l} title={titles.get(l.key)} />
                    <i className="share-line" style={{ width: `${(100 * Number(moneyOf(l, "usd"))) / most}%` }} />
                  </th>
                  <Cells line={l} />
                </tr>
              ))}
              <tr className="sum" data-testid="groups-total">
                <th scope="row">Total</th>
                <Cells line={report.total} />
              </tr>
            </tbody>
          </table>
          {report.items.length > listed && <p className="soft small">{report.items.length - listed} more lines are in the download.</p>}
        </div>
      )}
    </section>
  );
}

function Cells({ line: l }: { line: CostLine }) {
  return (
    <>
      <td className={l.unpriced ? "tone-warn" : undefined}>{costWords(l)}</td>
      <td>{l.model_calls.toLocaleString("en")}</td>
      <td>{(l.input_tokens - l.cached_tokens).toLocaleString("en")}</td>
      <td>{l.cached_tokens.toLocaleString("en")}</td>
      <td>{l.output_tokens.toLocaleString("en")}</td>
      <td>{l.tool_calls.toLocaleString("en")}</td>
      <td>{l.failed_model_calls ?? 0}</td>
    </>
  );
}

// useTitles reads the titles of the sessions or schedules of the first lines.
function useTitles(group: Group, items: CostLine[]): Map<string, string> {
  const ids = items.map((l) => l.key).filter((k) => (group === "session" && k.startsWith("session_")) || (group === "schedule" && k.startsWith("sched_")));
  const read = useQueries({
    queries: ids.slice(0, 20).map((id) => ({
      queryKey: ["title", id],
      staleTime: 300_000,
      retry: false,
      queryFn: async ({ signal }: { signal: AbortSignal }) =>
        (group === "session" ? await need(api.GET("/v1/sessions/{id}", { signal, params: { path: { id } } })) : await need(api.GET("/v1/schedules/{id}", { signal, params: { path: { id } } }))).title ?? "",
    })),
  });
  return new Map(ids.slice(0, 20).map((id, i) => [id, (read[i]?.data as string | undefined) ?? ""]));
}

function Member({ group, line: l, title }: { group: Group; line: CostLine; title: string | undefined }) {
  const name = oneLine(title || l.key, 60);
  if (group === "session" && l.key.startsWith("session_")) return <Link to="/sessions/$id" params={{ id: l.key }}>{name}</Link>;
  if (group === "schedule" && l.key.startsWith("sched_")) return <Link to="/schedules/$id" params={{ id: l.key }}>{name}</Link>;
  return <span dir="auto">{name}</span>;
}
