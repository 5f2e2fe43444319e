import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { RequestFailed } from "../../client";
import { useTitle } from "../app/hooks";
import { NotFound } from "../app/notfound";
import { Failure } from "../app/pieces";
import { ApprovalCard } from "../approval/card";
import { useOpenApprovals } from "../approval/live";
import type { Session } from "../event/types";
import { lifeOf } from "../task/life";
import { useOpenTasks } from "../task/live";
import { oneLine, plural } from "../text/text";
import { Composer } from "./composer";
import { Header } from "./header";
import { useTranscript } from "./reader";
import { Scroll } from "./scroll";
import { useSpend } from "./spend";
import "./session.css";

const route = getRouteApi("/sessions/$id");

export function SessionPage() {
  const { id } = route.useParams();
  return <SessionView key={id} id={id} />;
}

function SessionView({ id }: { id: string }) {
  const reading = useTranscript(id);
  const { session, error } = reading;
  const spend = useSpend(id, reading);
  useTitle(session ? oneLine(session.title || "Untitled", 60) : "Session");
  if (error instanceof RequestFailed && (error.status === 404 || error.status === 400)) return <NotFound what="session" id={id} />;
  if (!session || (reading.loading && reading.entries.length === 0)) {
    return <div className="center">{error ? <Failure error={error} /> : <p role="status">Loading…</p>}</div>;
  }
  const busy = !!reading.turn || session.state === "active";
  return (
    <>
      <Header session={session} reading={reading} busy={busy} spend={spend} />
      {reading.entries.length === 0 ? (
        <div className="scroll">
          <p className="center soft">Nothing was said yet. Send the first message below.</p>
        </div>
      ) : (
        <Scroll reading={reading} costs={spend?.turns} />
      )}
      <Dock session={session} />
      <Composer session={id} busy={busy} />
    </>
  );
}

// Dock holds what waits for a person, and the work that outlives the turn.
function Dock({ session }: { session: Session }) {
  const approvals = useOpenApprovals();
  const tasks = useOpenTasks();
  const asks = useMemo(() => approvals.filter((a) => a.session_id === session.id), [approvals, session.id]);
  const work = useMemo(() => tasks.filter((t) => t.session_id === session.id), [tasks, session.id]);
  const outlive = work.filter((t) => lifeOf(t) !== "turn").length;
  if (asks.length === 0 && work.length === 0 && session.state !== "paused") return null;
  return (
    <div className="dock" role="region" aria-label="Needs you, and running work" tabIndex={0}>
      {session.state === "paused" && (
        <p className="small" role="status">
          This session is paused{session.paused?.reason ? `: ${oneLine(session.paused.reason, 200)}` : ""}. Messages wait until it is resumed.
        </p>
      )}
      {asks.map((a) => (
        <ApprovalCard key={a.id} approval={a} compact />
      ))}
      {work.length > 0 && (
        <p className="row-of small">
          <span className="soft">{outlive > 0 ? `${plural(outlive, "task")} ${outlive === 1 ? "outlives" : "outlive"} the turn:` : "The turn waits for:"}</span>
          {work.slice(0, 6).map((t) => (
            <Link key={t.id} to="/tasks/$id" params={{ id: t.id }} className="pill">
              {oneLine(t.display_name || t.tool, 40)} · {t.state.replaceAll("_", " ")}
              {outlive > 0 && lifeOf(t) === "turn" && " · ends with the turn"}
            </Link>
          ))}
          {work.length > 6 && <Link to="/tasks">{work.length - 6} more</Link>}
        </p>
      )}
    </div>
  );
}
