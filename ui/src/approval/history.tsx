import { Link } from "@tanstack/react-router";
import { useNow } from "../app/hooks";
import { State } from "../app/icon";
import { Failure } from "../app/pieces";
import type { Approval } from "../event/types";
import { useReadOn } from "../list/paged";
import { age, duration, oneLine, pretty } from "../text/text";
import { visible } from "../text/exact";
import { ApprovalRows } from "./list";
import { approvalLook } from "./look";
import { One } from "./page";
import type { useHistory } from "./read";

// History shows the approvals that were decided, and one of them in full.
export function History({ history, id }: { history: ReturnType<typeof useHistory>; id?: string }) {
  const { pages, rows } = history;
  const now = useNow(5000);
  const readOn = useReadOn(pages);
  if (pages.error && rows.length === 0) {
    return (
      <div className="center">
        <Failure error={pages.error} onRetry={() => void pages.refetch()} />
      </div>
    );
  }
  if (rows.length === 0 && !id) return <p className="center soft">{pages.isPending ? "Loading…" : "Nothing was decided yet."}</p>;
  return (
    <div className={`inbox ${id ? "chosen" : ""}`}>
      <ApprovalRows name="Decided approvals" rows={rows} chosen={id} more={pages.hasNextPage} onEnd={readOn} row={(a) => <Decision approval={a} now={now} />} />
      <div className="scroll one" tabIndex={0} role="region" aria-label="Selected approval">
        {id ? (
          <>
            <p className="back">
              <Link to="/approvals" search={{ tab: "decided" }}>
                All decided approvals
              </Link>
            </p>
            <One key={id} id={id} />
          </>
        ) : (
          <p className="center soft">Select a decision to see what was decided.</p>
        )}
      </div>
    </div>
  );
}

function Decision({ approval: a, now }: { approval: Approval; now: number }) {
  return (
    <Link to="/approvals" search={{ tab: "decided", id: a.id }} className="question">
      <span className="top-line">
        <State look={approvalLook(a.state)} />
        <span className="soft small">{age(a.decided_at ?? a.requested_at, now)}</span>
      </span>
      <span className="what mono">
        {visible(oneLine(a.tool, 60))} <span className="soft">{visible(oneLine(pretty(a.args), 160))}</span>
      </span>
      <span className="soft small from" dir="auto">
        {a.decided_by ? `by ${oneLine(a.decided_by, 40)}` : ""}
        {a.decided_at ? `, after ${duration(Date.parse(a.decided_at) - Date.parse(a.requested_at))}` : ""}
        {a.note ? `: ${visible(oneLine(a.note, 80))}` : ""}
      </span>
    </Link>
  );
}
