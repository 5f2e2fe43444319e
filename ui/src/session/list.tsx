import { Link, getRouteApi } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { useNow, useTitle } from "../app/hooks";
import { State } from "../app/icon";
import { Button, CopyLine, Failure } from "../app/pieces";
import { useKeepScroll } from "../app/scroll";
import { RowCost } from "../cost/row";
import type { Session } from "../event/types";
import { useView } from "../list/paged";
import { useMay } from "../principal/principal";
import { Ribbon } from "../recovery/ribbon";
import { age, modelName, oneLine, plural } from "../text/text";
import { sessionLook } from "./look";
import { useSessions } from "./rows";
import { TitleField } from "./titlefield";
import "./list.css";

const route = getRouteApi("/sessions");

const filters = [
  { state: undefined, word: "All" },
  { state: "active", word: "Working" },
  { state: "idle", word: "Idle" },
  { state: "paused", word: "Paused" },
] as const;

export function SessionList() {
  const { state, q = "" } = route.useSearch();
  const { pages, rows, setView } = useSessions(state, q);
  const now = useNow(5000);
  const box = useRef<HTMLDivElement>(null);
  useTitle("Sessions");
  // eslint-disable-next-line react-hooks/incompatible-library
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: () => 56, overscan: 10, getItemKey: (i) => rows[i]!.id });
  useKeepScroll(`sessions ${state ?? ""} ${q}`, box, rows.length);
  const shown = virtual.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useView(rows, shown, setView);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = pages;
  useEffect(() => {
    if (hasNextPage && !isFetchingNextPage && last >= rows.length - 20) void fetchNextPage();
  }, [last, rows.length, hasNextPage, isFetchingNextPage, fetchNextPage]);

  return (
    <>
      <div className="head">
        <h1>Sessions</h1>
        <nav className="chips grow" aria-label="Filter by state">
          {filters.map((f) => (
            <Link key={f.word} to="/sessions" search={{ ...(f.state ? { state: f.state } : {}), ...(q ? { q } : {}) }} activeOptions={{ exact: true }} aria-current={state === f.state ? "page" : undefined}>
              {f.word}
            </Link>
          ))}
        </nav>
        <TitleField text={q} state={state} />
        <Start />
      </div>
      <Ribbon />
      {pages.error && rows.length === 0 ? (
        <div className="center">
          <Failure error={pages.error} onRetry={() => void pages.refetch()} />
        </div>
      ) : rows.length === 0 ? (
        pages.isPending ? (
          <p className="center" role="status">
            Loading…
          </p>
        ) : (
          <NoSessions filtered={!!state || q !== ""} words={q !== ""} />
        )
      ) : (
        <div className="scroll sessions" ref={box} tabIndex={0} role="region" aria-label="List of sessions">
          <ul style={{ height: virtual.getTotalSize(), position: "relative" }} aria-label={plural(rows.length, "session")}>
            {shown.map((item) => (
              <li key={item.key} aria-setsize={hasNextPage ? -1 : rows.length} aria-posinset={item.index + 1}>
                <Row session={rows[item.index]!} now={now} top={item.start} />
              </li>
            ))}
          </ul>
          {isFetchingNextPage && <p className="center small soft">Loading more…</p>}
        </div>
      )}
    </>
  );
}

const NewSession = lazy(async () => ({ default: (await import("./new")).NewSession }));

function Start() {
  const { may, why } = useMay("write");
  const [open, setOpen] = useState(false);
  if (!may) return <span className="soft small">{why}</span>;
  return (
    <>
      <Button look="first" onPress={() => setOpen(true)}>
        New session
      </Button>
      {open && (
        <Suspense>
          <NewSession onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  );
}

function Row({ session, now, top }: { session: Session; now: number; top: number }) {
  return (
    <Link to="/sessions/$id" params={{ id: session.id }} className="line" style={{ transform: `translateY(${top}px)` }}>
      <State look={sessionLook(session)} />
      <span className="title" dir="auto">
        {oneLine(session.title || "Untitled", 160)}
        <small>
          {session.agent.name ? `${oneLine(session.agent.name, 60)} · ` : ""}
          {session.agent.model ? modelName(session.agent.model) : "default model"}
        </small>
      </span>
      <span className="tasks">{session.open_tasks > 0 && <span className="pill">{plural(session.open_tasks, "task")} running</span>}</span>
      <RowCost cost={session.cost} />
      <span className="soft small age">{age(session.updated_at, now)}</span>
    </Link>
  );
}

function NoSessions({ filtered, words }: { filtered: boolean; words: boolean }) {
  if (filtered) {
    return (
      <div className="center">
        <p>{words ? "No session has all of these words in its title." : "No session is in this state."}</p>
        <p>
          <Link to="/sessions" search={{}}>
            Show all sessions
          </Link>
        </p>
      </div>
    );
  }
  return (
    <div className="scroll">
      <div className="center">
        <p>There are no sessions yet. Start one here, or with one of these commands:</p>
        <CopyLine text={'perdure run "What can you do?"'} />
        <CopyLine text="perdure session new" />
        <CopyLine text="perdure demo crash" />
        <p>
          <Button onPress={() => window.open("../docs/tutorial", "_blank", "noopener")}>Open the tutorial</Button>
        </p>
      </div>
    </div>
  );
}
