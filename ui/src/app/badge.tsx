import { Link } from "@tanstack/react-router";
import { useOpenCount } from "../approval/live";
import { useLiveList } from "../event/list";
import { useOpenTasks } from "../task/live";
import { usePages } from "./pages";

// Work is what the server counts, by what somebody must do about it.
type Work = { id: string; running: number; needs_you: number; approvals: number; unknown: number; failed: number };

export type Counts = { running: number; needs: number; unknown: number; failed: number; approvals: number };

// useCounts returns the counts of the server. Until it has said them, what the page knows counts.
export function useCounts(): Counts {
  const work = useLiveList<Work>("work").get("work");
  const tasks = useOpenTasks();
  const approvals = useOpenCount();
  const of = (...states: string[]) => tasks.filter((t) => states.includes(t.state)).length;
  if (work) return { running: work.running, needs: work.needs_you, unknown: work.unknown, failed: work.failed, approvals };
  return { running: of("running", "queued"), needs: approvals + of("awaiting_input"), unknown: of("unknown"), failed: 0, approvals };
}

// Badge counts what runs and what waits for a person, on every page. Each count leads to its tasks.
export function Badge() {
  const { running, needs, unknown, failed } = useCounts();
  const approvals = usePages().some((p) => p.to === "/approvals");
  return (
    <span className="badge" data-testid="badge">
      <Count n={running} unit="running" short="run" tone="live" tab="working" />
      <Count n={needs} unit={needs === 1 ? "needs you" : "need you"} short="you" tone="warn" tab="needs-you" inbox={approvals} />
      {unknown > 0 && <Count n={unknown} unit="unknown" short="unk." tone="odd" tab="failed" />}
      {failed > 0 && <Count n={failed} unit="failed" short="fail" tone="bad" tab="failed" />}
    </span>
  );
}

function Count({ n, unit, short, tone, tab, inbox }: { n: number; unit: string; short: string; tone: string; tab: string; inbox?: boolean }) {
  const inside = (
    <>
      <strong className={n > 0 ? `tone-${tone}` : undefined}>{n}</strong>
      {" "}
      <span className="unit" data-short={short}>
        {unit}
      </span>
    </>
  );
  return inbox ? (
    <Link to={"/approvals" as "/sessions"}>{inside}</Link>
  ) : (
    <Link to="/tasks" search={{ tab } as never}>
      {inside}
    </Link>
  );
}
