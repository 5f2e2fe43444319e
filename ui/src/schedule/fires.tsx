import { Link } from "@tanstack/react-router";
import { State } from "../app/icon";
import { useNow } from "../app/hooks";
import { Button, Failure } from "../app/pieces";
import { age, oneLine, plural } from "../text/text";
import { fireLook, lastResult, lateness, type Fire, type Schedule } from "./look";
import { useFires, useLastFire, useResult } from "./read";
import { inZone } from "./when";

// Fires is the table of past fires, the latest first.
export function Fires({ s }: { s: Schedule }) {
  const read = useFires(s.id);
  const now = useNow(5000);
  const fires = read.data?.pages.flatMap((p) => p.items as Fire[]) ?? [];
  if (read.error && fires.length === 0) return <Failure error={read.error} onRetry={() => void read.refetch()} />;
  if (read.isPending) return <p className="soft small">Loading…</p>;
  if (fires.length === 0) return <p className="soft small">It has not fired yet.</p>;
  return (
    <>
      <table className="fires">
        <thead>
          <tr>
            <th scope="col">Planned for</th>
            <th scope="col">Result</th>
            <th scope="col">Why, and what it did</th>
          </tr>
        </thead>
        <tbody>
          {fires.map((f) => (
            <Row key={f.nominal_at} f={f} zone={s.timezone} now={now} />
          ))}
        </tbody>
      </table>
      {read.hasNextPage && (
        <Button isDisabled={read.isFetchingNextPage} onPress={() => void read.fetchNextPage()}>
          Read older ones
        </Button>
      )}
    </>
  );
}

// Last shows how the latest fire went.
export function Last({ s, read = true }: { s: Schedule; read?: boolean }) {
  const last = useLastFire(s, read);
  const result = useResult(last);
  return <State look={last ? fireLook(last, result) : lastResult(s)} />;
}

function Row({ f, zone, now }: { f: Fire; zone: string; now: number }) {
  const result = useResult(f);
  const late = lateness(f);
  return (
    <tr data-outcome={f.outcome} data-result={result}>
      <td>
        <time dateTime={f.nominal_at}>{inZone(f.nominal_at, zone)}</time>
        <small className="soft">{age(f.nominal_at, now)}</small>
      </td>
      <td>
        <State look={fireLook(f, result)} />
        {late && <span className="pill tone-warn">{late}</span>}
      </td>
      <td>
        {f.task_id && (
          <Link to="/tasks/$id" params={{ id: f.task_id }}>
            open the task
          </Link>
        )}
        {f.message_id && (
          <Link to="/sessions/$id" params={{ id: f.session_id }}>
            open the session
          </Link>
        )}
        {(f.reason || f.counted) && (
          <span className="soft untrusted">
            {f.reason && oneLine(f.reason, 300)}
            {f.counted ? `${f.reason ? "; " : ""}also for ${plural(f.counted, "earlier time")}` : ""}
          </span>
        )}
      </td>
    </tr>
  );
}
