import { Link, Outlet, useLocation } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { refused } from "./api";
import { Button, Failure } from "./pieces";
import { useConnection, useNow } from "./hooks";
import { Icon } from "./icon";
import { clock } from "../text/text";
import { signOut, usePrincipal } from "../principal/principal";
import { SignIn } from "../principal/signin";
import { useOpenTasks } from "../task/live";
import { useOpenApprovals } from "../approval/live";

// Shell is what all pages have in common. A person who is not signed in gets the sign-in, at the same
// address, so that a deep link still leads to its page afterwards.
export function Shell({ linkError }: { linkError?: unknown }) {
  const me = usePrincipal();
  if (refused(me.error)) return <SignIn linkError={linkError} />;
  if (!me.data) {
    return <div className="center">{me.error ? <Failure error={me.error} onRetry={() => void me.refetch()} /> : <p role="status">Loading…</p>}</div>;
  }
  return <Frame name={me.data.name} />;
}

function Frame({ name }: { name: string }) {
  const main = useRef<HTMLElement>(null);
  const { pathname } = useLocation();
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) main.current?.focus();
    first.current = false;
  }, [pathname]);
  return (
    <div className="shell">
      <a className="skip" href="#main" onClick={(e) => (e.preventDefault(), main.current?.focus())}>
        Skip to the content
      </a>
      <header className="top">
        <Link to="/sessions" className="brand" aria-label="Perdure">
          <img src="./icon.svg" width="24" height="24" alt="" />
          <span>Perdure</span>
        </Link>
        <span className="grow" />
        <Badge />
        <ConnectionPill />
      </header>
      <nav className="rail" aria-label="Pages">
        <ul>
          <li>
            <Link to="/sessions">
              <Icon name="list" /> Sessions
            </Link>
          </li>
          <li>
            <Link to="/tasks">
              <Icon name="task" /> Tasks
            </Link>
          </li>
          <li>
            <Link to="/timeline" search={{}}>
              <Icon name="timeline" /> Timeline
            </Link>
          </li>
          <li>
            <Link to="/events">
              <Icon name="events" /> Events
            </Link>
          </li>
          <li className="last">
            <Button look="bare" onPress={() => void signOut()} aria-label={`Sign out (${name})`}>
              Sign out
            </Button>
          </li>
        </ul>
      </nav>
      <main className="main" id="main" ref={main} tabIndex={-1}>
        <Outlet />
      </main>
    </div>
  );
}

// Badge counts what runs and what waits for a person, on every page.
function Badge() {
  const tasks = useOpenTasks();
  const approvals = useOpenApprovals();
  const running = tasks.filter((t) => t.state === "running" || t.state === "queued").length;
  const unknown = tasks.filter((t) => t.state === "unknown").length;
  const needs = approvals.length + tasks.filter((t) => t.state === "awaiting_input").length;
  return (
    <span className="badge" data-testid="badge">
      <strong>{running}</strong> running · <strong>{needs}</strong> {needs === 1 ? "needs" : "need"} you
      {unknown > 0 && (
        <>
          {" · "}
          <strong className="tone-odd">{unknown}</strong> unknown
        </>
      )}
    </span>
  );
}

// ConnectionPill says how fresh the page is.
function ConnectionPill() {
  const c = useConnection();
  const now = useNow();
  const wait = Math.max(0, Math.ceil((c.retryAt - now) / 1000));
  const [tone, icon, word] =
    c.state === "live" ? ["good", "dot", "Live"]
    : c.state === "connecting" ? ["soft", "ring", "Connecting"]
    : c.state === "reconnecting" ? ["warn", "ring", wait > 0 ? `Reconnecting ${wait} s` : "Reconnecting"]
    : ["bad", "cross", `Offline since ${clock(c.since)}`];
  return (
    <span className={`pill tone-${tone}`} data-testid="connection" data-state={c.state}>
      <Icon name={icon} spin={icon === "ring"} />
      <span>{word}</span>
      <span className="visually-hidden" role="status">
        {c.state === "live" ? "The page is live" : c.state === "offline" ? "The server is not reachable" : ""}
      </span>
    </span>
  );
}
