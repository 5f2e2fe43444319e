import { Link, getRouteApi } from "@tanstack/react-router";
import { useNow, useTitle } from "../app/hooks";
import { State } from "../app/icon";
import { Button, CopyLine, Failure } from "../app/pieces";
import { standingLook, standingWords, type Standing } from "../cost/money";
import { useMay } from "../principal/principal";
import { age, oneLine } from "../text/text";
import { Last } from "./fires";
import { does, overlapWords, scheduleLook, stateOf, times, type Schedule } from "./look";
import { slow, useBudgets, useSchedules } from "./read";
import { inZone, until } from "./when";
import "../session/list.css";
import "../session/session.css";
import "./schedule.css";

const route = getRouteApi("/schedules");

const lastRead = 50; // rows whose latest fire is read

const filters = [
  { state: undefined, word: "All" },
  { state: "on", word: "On" },
  { state: "paused", word: "Paused" },
  { state: "done", word: "Done" },
] as const;

export function ScheduleList() {
  const { state } = route.useSearch();
  const read = useSchedules();
  const budgets = useBudgets(slow);
  const now = useNow(1000);
  useTitle("Schedules");
  const all = read.data?.pages.flatMap((p) => p.items as Schedule[]).toReversed() ?? [];
  const rows = all.filter((s) => !state || stateOf(s) === state);
  return (
    <>
      <div className="head">
        <h1>Schedules</h1>
        <nav className="chips grow" aria-label="Filter by state">
          {filters.map((f) => (
            <Link key={f.word} to="/schedules" search={f.state ? { state: f.state } : {}} activeOptions={{ exact: true }} aria-current={state === f.state ? "page" : undefined}>
              {f.word}
            </Link>
          ))}
        </nav>
        <Create />
      </div>
      {read.error && all.length === 0 ? (
        <div className="center">
          <Failure error={read.error} onRetry={() => void read.refetch()} />
        </div>
      ) : read.isPending ? (
        <p className="center" role="status">
          Loading…
        </p>
      ) : rows.length === 0 ? (
        <None filtered={!!state && all.length > 0} />
      ) : (
        <div className="scroll" tabIndex={0} role="region" aria-label="List of schedules">
          <div className="schedules-head" aria-hidden="true">
            <span>State</span>
            <span>Schedule</span>
            <span>Next fire</span>
            <span>Last</span>
            <span>While one runs</span>
            <span>Budget of its session</span>
          </div>
          <ul className="schedules">
            {rows.map((s, i) => (
              <li key={s.id}>
                <Row s={s} now={now} read={i < lastRead} budget={budgetOf(s, (budgets.data?.items ?? []) as Standing[])} />
              </li>
            ))}
          </ul>
          {read.hasNextPage && (
            <p className="more">
              <Button isDisabled={read.isFetchingNextPage} onPress={() => void read.fetchNextPage()}>
                Read newer ones
              </Button>
            </p>
          )}
        </div>
      )}
    </>
  );
}

// budgetOf returns the budget of the session of a schedule that is closest to its end.
function budgetOf(s: Schedule, all: Standing[]): Standing | undefined {
  return all.filter((b) => b.scope === "session" && b.subject === s.session_id).sort((a, b) => a.percent_left - b.percent_left)[0];
}

function Row({ s, now, read, budget }: { s: Schedule; now: number; read: boolean; budget: Standing | undefined }) {
  const next = s.next_trigger_at;
  return (
    <Link to="/schedules/$id" params={{ id: s.id }} className="schedule">
      <State look={scheduleLook(s)} />
      <span className="what" dir="auto">
        {oneLine(s.title || does(s), 120)}
        <small>{times(s) === "once" && s.scheduled_at ? `once, ${inZone(s.scheduled_at, s.timezone)}` : times(s)}</small>
      </span>
      <span className="cell">
        {next ? (
          <>
            {until(next, now)}
            <small>{inZone(next, s.timezone)}</small>
          </>
        ) : (
          <span className="soft">{stateOf(s) === "paused" ? oneLine(s.paused_why ?? "", 80) : "no more"}</span>
        )}
      </span>
      <span className="cell">
        <Last s={s} read={read} />
        <small>{age(s.last_triggered_at, now)}</small>
      </span>
      <span className="cell soft wide">
        <span className="visually-hidden">While one runs: </span>
        {overlapWords[s.overlap] ?? s.overlap}
      </span>
      <span className="cell wide">{budget ? <><State look={standingLook(budget.state)} /><small>{standingWords(budget)}</small></> : <span className="soft">none</span>}</span>
    </Link>
  );
}

function Create() {
  const { may, why } = useMay("write");
  if (!may) return <span className="soft small">{why}</span>;
  return (
    <Link to="/schedules/new" search={{}} className="button first">
      New schedule
    </Link>
  );
}

function None({ filtered }: { filtered: boolean }) {
  if (filtered) {
    return (
      <div className="center">
        <p>No schedule is in this state.</p>
        <p>
          <Link to="/schedules" search={{}}>
            Show all schedules
          </Link>
        </p>
      </div>
    );
  }
  return (
    <div className="scroll">
      <div className="center">
        <p>There are no schedules yet. A schedule sends a message to a session, or runs a tool, at planned times. Create one here, or with a command:</p>
        <CopyLine text={'perdure schedule create "30 7 * * 1-5" --tz Europe/Berlin --session last --message "Summarise what came in overnight."'} />
        <p>This command shows when an expression would fire:</p>
        <CopyLine text={'perdure schedule next "30 7 * * 1-5" --tz Europe/Berlin'} />
      </div>
    </div>
  );
}
