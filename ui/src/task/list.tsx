import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState } from "react";
import { State } from "../app/icon";
import { Button, CopyLine, Failure } from "../app/pieces";
import { useTitle } from "../app/hooks";
import { useNewestApprovals, useOpenCount } from "../approval/live";
import type { Task } from "../event/types";
import { useReadOn } from "../list/paged";
import { Ribbon } from "../recovery/ribbon";
import { oneLine } from "../text/text";
import { BulkBar } from "./bulk";
import { CancelMatching } from "./cancelall";
import { parseFilter, tabs, tabWords, type Tab } from "./filter";
import { tabCounts, useOverview, useTaskRows } from "./rows";
import { TaskRows } from "./tasklist";
import "../session/list.css";
import "../session/session.css";
import "../session/new.css";
import "./task.css";

const route = getRouteApi("/tasks");

// TaskList shows the tasks of all sessions, by what a person has to do about them.
export function TaskList() {
  const search = route.useSearch();
  const approvals = useNewestApprovals();
  const questions = useOpenCount();
  const overview = useOverview();
  const counts = tabCounts(overview, questions);
  const tab: Tab = tabs.find((t) => t === search.tab) ?? ((counts["needs-you"] ?? questions) > 0 ? "needs-you" : "working");
  const text = search.q ?? "";
  const filter = useMemo(() => parseFilter(text), [text]);
  const { pages, rows, setView } = useTaskRows(tab, filter, counts[tab]);
  const [picked, setPicked] = useState<ReadonlySet<string>>(none);
  useEffect(() => setPicked(none), [tab, text]);
  useTitle(`Tasks, ${tabWords[tab].toLowerCase()}`);
  const asks = tab === "needs-you" && filter.words.length === 0 ? approvals : [];
  const known = useRef(new Map<string, Task>()); // a selected task may leave the list
  const chosen = useMemo(() => {
    rows.forEach((t) => known.current.set(t.id, t));
    return [...picked].map((id) => known.current.get(id)).filter((t) => t !== undefined);
  }, [rows, picked]);
  const loadMore = useReadOn(pages);

  return (
    <>
      <div className="head">
        <h1>Tasks</h1>
        <nav className="chips grow" aria-label="Groups of tasks">
          {tabs.map((t) => (
            <Link key={t} to="/tasks" search={{ tab: t, ...(text ? { q: text } : {}) }} activeOptions={{ exact: true }} aria-current={t === tab ? "page" : undefined} data-testid={`tab-${t}`}>
              {tabWords[t]} <span className="count">{counts[t] ?? ""}</span>
            </Link>
          ))}
        </nav>
      </div>
      <Ribbon />
      <div className="toolbar" role="toolbar" aria-label="Filter and actions">
        <FilterField text={text} tab={tab} />
        {chosen.length > 0 ? <BulkBar tasks={chosen} onDone={() => setPicked(none)} /> : (tab === "working" || tab === "needs-you") && <CancelMatching tab={tab} filter={filter} />}
      </div>
      {filter.faults.map((f) => (
        <p key={f} className="fault small" role="alert">
          {f}
        </p>
      ))}
      {asks.length > 0 && (
        <ul className="asks" aria-label="Calls that need approval">
          {asks.slice(0, mostAsks).map((a) => (
            <li key={a.id}>
              <Link to="/sessions/$id" params={{ id: a.session_id }} className="ask">
                <State look={{ icon: "hand", word: "Needs approval", tone: "warn" }} /> <span>{oneLine(a.tool, 60)}</span>
              </Link>
            </li>
          ))}
          {asks.length > mostAsks && (
            <li>
              <Link to="/approvals" search={{}} className="ask">
                All {questions.toLocaleString("en")} open approvals
              </Link>
            </li>
          )}
        </ul>
      )}
      {pages.error && rows.length === 0 ? (
        <div className="center">
          <Failure error={pages.error} onRetry={() => void pages.refetch()} />
        </div>
      ) : rows.length === 0 ? (
        asks.length === 0 && <Empty tab={tab} loading={pages.isPending} filtered={text !== ""} />
      ) : (
        <TaskRows key={tab} name={`${tab} ${text}`} rows={rows} onView={setView} beatMs={overview?.heartbeat_interval_ms ?? 0} picked={picked} onPick={setPicked} more={pages.hasNextPage} onEnd={loadMore} />
      )}
    </>
  );
}

const mostAsks = 20; // that are listed above the tasks; the inbox has all

const none: ReadonlySet<string> = new Set();

// FilterField changes the filter in the address while a person types, without a new history entry.
function FilterField({ text, tab }: { text: string; tab: Tab }) {
  const navigate = useNavigate();
  const [typed, setTyped] = useState(text);
  useEffect(() => setTyped(text), [text]);
  const set = (q: string) => {
    setTyped(q);
    void navigate({ to: "/tasks", search: { tab, ...(q.trim() ? { q } : {}) }, replace: true });
  };
  return (
    <span className="filter">
      <input className="field" type="search" aria-label="Filter" placeholder="Filter: tool:bash older:10m, or words" value={typed} onChange={(e) => set(e.target.value)} spellCheck={false} autoComplete="off" />
      {text && (
        <Button look="bare" onPress={() => set("")}>
          Clear
        </Button>
      )}
    </span>
  );
}

const empties: Record<Tab, string> = {
  "needs-you": "Nothing needs you.",
  working: "Nothing is running.",
  scheduled: "No agent watches anything on a schedule.",
  done: "No task has ended yet.",
  failed: "No task has failed, and no outcome is unknown.",
};

function Empty({ tab, loading, filtered }: { tab: Tab; loading: boolean; filtered: boolean }) {
  if (loading) {
    return (
      <p className="center soft" role="status">
        Loading…
      </p>
    );
  }
  return (
    <div className="center">
      <p className="soft">{filtered ? "No task in this group passes the filter." : empties[tab]}</p>
      {!filtered && tab === "working" && <CopyLine text="perdure ps" />}
    </div>
  );
}
