import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useMemo } from "react";
import { RequestFailed } from "../../client";
import { useNow, useTitle } from "../app/hooks";
import { keysOn, useKeys } from "../app/keys";
import { State } from "../app/icon";
import { NotFound } from "../app/notfound";
import { Failure } from "../app/pieces";
import { useLiveList } from "../event/list";
import type { Approval, Session } from "../event/types";
import { useReadOn } from "../list/paged";
import { useMay } from "../principal/principal";
import { age, duration, oneLine, pretty } from "../text/text";
import { visible } from "../text/exact";
import { ApprovalCard } from "./card";
import { History } from "./history";
import { ApprovalRows } from "./list";
import { useOpenCount } from "./live";
import { approvalLook, classLook } from "./look";
import { hasty } from "./order";
import { useExact, useHistory, useInbox } from "./read";
import "../session/list.css";
import "../session/session.css";
import "./approval.css";

const route = getRouteApi("/approvals");

// ApprovalsPage is the inbox of questions. The address holds the selected one: it stays selected when
// others arrive, and when somebody decides it.
export function ApprovalsPage() {
  const { tab, id } = route.useSearch();
  const count = useOpenCount();
  const decided = tab === "decided";
  const history = useHistory();
  const warning = useMemo(() => hasty(history.rows.slice(0, 50)), [history.rows]);
  useTitle(decided ? "Decided approvals" : count > 0 ? `Approvals (${count})` : "Approvals");
  return (
    <>
      <div className="head">
        <h1>Approvals</h1>
        <nav className="chips grow" aria-label="Groups of approvals">
          <Link to="/approvals" search={{}} activeOptions={{ exact: true, includeSearch: true }} aria-current={decided ? undefined : "page"}>
            Open {count}
          </Link>
          <Link to="/approvals" search={{ tab: "decided" }} activeOptions={{ exact: true, includeSearch: true }} aria-current={decided ? "page" : undefined}>
            Decided
          </Link>
        </nav>
        {!decided && <Keys />}
      </div>
      {warning && (
        <p className="notice warn band" role="status">
          {warning.quick} of the last {warning.of} decisions were approvals within two seconds of the question. Questions that nobody reads protect nothing: ask about fewer tools, or take the time.
        </p>
      )}
      {decided ? <History history={history} id={id} /> : <Inbox count={count} id={id} />}
    </>
  );
}

// Keys names the keys beside the list, unless they are switched off, which the list behind ? does.
function Keys() {
  const { may } = useMay("approve");
  return keysOn() ? <span className="small soft keys">Keys: {may && "a approve, d deny, r all equal ones, "}j next, k previous, ? all</span> : null;
}

function Inbox({ count, id }: { count: number; id?: string }) {
  const { pages, rows, setView } = useInbox(count);
  const readOn = useReadOn(pages);
  const navigate = useNavigate();
  const wide = matchMedia("(min-width: 1000px)").matches;
  const first = rows[0]?.id;
  useEffect(() => {
    if (!id && first && wide) void navigate({ to: "/approvals", search: { id: first }, replace: true });
  }, [id, first, wide, navigate]);
  const at = rows.findIndex((r) => r.id === id);
  const go = (to: number) => {
    const row = rows[Math.min(Math.max(to, 0), rows.length - 1)];
    if (row) void navigate({ to: "/approvals", search: { id: row.id }, replace: true });
  };
  useKeys("Approvals", { j: { about: "Next question", run: () => go(at + 1) }, k: { about: "Previous question", run: () => go(at < 0 ? 0 : at - 1) } });
  if (rows.length === 0 && !id) {
    if (pages.error) return <div className="center"><Failure error={pages.error} onRetry={() => void pages.refetch()} /></div>;
    return pages.isPending ? <p className="center" role="status">Loading…</p> : <Nothing />;
  }
  return (
    <div className={`inbox ${id ? "chosen" : ""}`}>
      <ApprovalRows name="Open approvals" rows={rows} chosen={id} more={pages.hasNextPage} onEnd={readOn} onView={setView} row={(a) => <Row approval={a} />} />
      <div className="scroll one" tabIndex={0} role="region" aria-label="Selected approval">
        {id ? (
          <>
            <p className="back row-of">
              <Link to="/approvals" search={{}}>
                All open approvals
              </Link>
              {rows.length > 1 && at < rows.length - 1 && (
                <Link to="/approvals" search={{ id: rows[at + 1]!.id }} replace>
                  Next
                </Link>
              )}
            </p>
            <One key={id} id={id} listed={rows[at]} known={rows} />
            {at < 0 && rows.length > 0 && (
              <p className="after">
                <Link to="/approvals" search={{ id: rows[0]!.id }} replace className="button-link">
                  Next question
                </Link>
              </p>
            )}
          </>
        ) : null}
      </div>
    </div>
  );
}

// One shows the selected approval, also one that is decided or that the list does not have.
export function One({ id, listed, known }: { id: string; listed?: Approval | undefined; known?: readonly Approval[] }) {
  const exact = useExact(id);
  const error = exact.error;
  if (error instanceof RequestFailed && (error.status === 404 || error.status === 400 || error.status === 422)) return <NotFound what="approval" id={id} />;
  const approval = exact.data?.approval ?? listed;
  if (approval) return <ApprovalCard approval={approval} known={known} keys />;
  return error ? <Failure error={error} onRetry={() => void exact.refetch()} /> : <p role="status">Loading…</p>;
}

function Row({ approval }: { approval: Approval }) {
  const now = useNow(5000);
  const sessions = useLiveList<Session>("sessions");
  const session = sessions.get(approval.session_id);
  const left = approval.expires_at ? Date.parse(approval.expires_at) - now : undefined;
  return (
    <Link to="/approvals" search={{ id: approval.id }} className="question">
      <span className="top-line">
        <State look={classLook(approval.class)} />
        <span className="soft small">{age(approval.requested_at, now)}</span>
      </span>
      <span className="what mono">
        {visible(oneLine(approval.tool, 60))} <span className="soft">{visible(oneLine(pretty(approval.args), 160))}</span>
      </span>
      <span className="soft small from" dir="auto">
        {oneLine(session?.title || session?.agent.name || approval.session_id, 80)}
        {left !== undefined && <span className={left < 60_000 ? "tone-warn" : ""}>{left > 0 ? ` · expires in ${duration(left)}` : " · expires now"}</span>}
      </span>
    </Link>
  );
}

function Nothing() {
  return (
    <div className="center">
      <State look={{ ...approvalLook("approved"), word: "Nothing waits for you" }} />
      <p className="soft">
        Calls that need the approval of a person appear here, those that must not happen twice first. Which calls ask is set where the server is started, as with <code>perdure serve --ask bash</code>,
        by the tool itself, or by the permissions of an agent.
      </p>
    </div>
  );
}
