import { useMutation } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import { State } from "../app/icon";
import { Failure } from "../app/pieces";
import type { Approval } from "../event/types";
import { clock, oneLine, plural } from "../text/text";
import { visible } from "../text/exact";
import { ExactCall } from "./call";
import { Decide } from "./decide";
import { useNewestApprovals } from "./live";
import { approvalLook, classLook } from "./look";
import { equals } from "./order";
import { useExact } from "./read";
import { decide, type Outcome } from "./send";
import { asked, Why } from "./why";
import "./approval.css";

// ApprovalCard asks for a decision about one call. Lists have shortened arguments, so the card reads
// the exact ones, and sends their digest with the decision. known are the open approvals among which it
// finds equal ones, by default the newest. keys: single keys decide. compact: beside a transcript, which
// says who asks.
export function ApprovalCard({ approval, known, keys = false, compact = false }: { approval: Approval; known?: readonly Approval[] | undefined; keys?: boolean; compact?: boolean }) {
  const newest = useNewestApprovals();
  const open = known ?? newest;
  const exact = useExact(approval.id);
  const act = useMutation({ mutationFn: decide });
  const { refetch } = exact;
  const listed = open.some((a) => a.id === approval.id);
  useEffect(() => {
    if (!listed) void refetch(); // somebody may have decided
  }, [listed, refetch]);
  const shown = exact.data?.approval ?? approval;
  const equal = useMemo(() => equals(shown, open), [shown, open]);
  const first = shown.permissions[0];
  return (
    <section className={`approval ${shown.state} ${compact ? "compact" : ""}`} aria-label={`Approval of ${shown.tool}`} data-testid="approval" data-state={shown.state}>
      <div className="row-of between">
        <h2>
          {shown.state === "open" && "May "}
          <code>{visible(oneLine(shown.tool, 120))}</code>
          {shown.state === "open" && " run?"}
        </h2>
        <State look={classLook(shown.class)} />
      </div>
      {shown.state !== "open" && <Decided approval={shown} outcome={act.data} />}
      {exact.error ? <Failure error={exact.error} onRetry={() => void refetch()} /> : exact.data ? <ExactCall exact={exact.data} /> : <p className="soft small">Reading the exact arguments…</p>}
      {compact ? (
        <details className="small">
          <summary>
            Why{first && `: ${asked[first.kind] ?? `${oneLine(first.kind, 40)} ${oneLine(first.target, 100)}`}`}
          </summary>
          <Why approval={shown} />
        </details>
      ) : (
        <Why approval={shown} />
      )}
      {shown.state === "open" && <Decide approval={shown} ready={!!exact.data} equal={equal} keys={keys} act={act} />}
    </section>
  );
}

// Decided says who decided. outcome is that of the decision made on this page, which may have come
// second.
function Decided({ approval, outcome }: { approval: Approval; outcome?: Outcome }) {
  const late = outcome?.late.find((a) => a.id === approval.id);
  return (
    <div className={`notice ${late ? "bad" : ""}`} role="status" data-testid="decided">
      <p className="row-of">
        <State look={approvalLook(approval.state)} />
        <span>
          {approval.decided_by ? `by ${oneLine(approval.decided_by, 80)}` : ""}
          {approval.decided_at ? ` at ${clock(approval.decided_at)}` : ""}
        </span>
      </p>
      {late && <p>Somebody decided before you. The first decision counts: yours changed nothing.</p>}
      {outcome && outcome.counts > 1 && <p>Your decision counts for {plural(outcome.counts, "question")}.</p>}
      {approval.note && (
        <p className="untrusted" dir="auto">
          “{visible(approval.note)}”
        </p>
      )}
      {approval.new_args !== undefined && <p>Other arguments were approved instead.</p>}
    </div>
  );
}
