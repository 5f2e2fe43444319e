import { useQuery } from "@tanstack/react-query";
import { Link, useLocation } from "@tanstack/react-router";
import { Button } from "react-aria-components";
import { clock } from "../text/text";
import { stream } from "./api";
import { Badge } from "./badge";
import { useFind } from "./find";
import { useConnection, useNow } from "./hooks";
import { Icon } from "./icon";
import { pageOf, usePages } from "./pages";

// Top is the line above all pages: where the reader is, search, what runs, and how fresh the page is.
export function Top() {
  const find = useFind();
  return (
    <header className="top">
      <Link to="/sessions" className="brand" aria-label="Perdure">
        <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
          <rect width="32" height="32" rx="8" fill="#2f5bd8" />
          <path d="M10 25V7h7.5a5.5 5.5 0 0 1 0 11H14" fill="none" stroke="#fff" strokeWidth="3.2" strokeLinecap="round" strokeLinejoin="round" />
        </svg>
        <span>Perdure</span>
      </Link>
      <Crumbs />
      <span className="grow" />
      <Button className="find" onPress={() => find()} aria-label="Search, or run a command">
        <Icon name="search" />
        <span>Search or run</span>
        <kbd>/</kbd>
      </Button>
      <Badge />
      <ConnectionPill />
    </header>
  );
}

// Crumbs says where the page is. The last part is the name that the page has given itself.
function Crumbs() {
  const { pathname } = useLocation();
  const page = pageOf(usePages(), pathname);
  const { data: title } = useQuery<string>({ queryKey: ["title"], queryFn: () => "", enabled: false, staleTime: Infinity, gcTime: Infinity });
  if (!page) return null;
  const deep = pathname !== page.to;
  return (
    <nav className="crumbs" aria-label="Where you are">
      <ol>
        <li aria-current={deep ? undefined : "page"}>
          {deep ? (
            <Link to={page.to as "/sessions"} activeOptions={{ exact: true }}>
              {page.word}
            </Link>
          ) : (
            page.word
          )}
        </li>
        {deep && title && (
          <li aria-current="page" dir="auto">
            {title}
          </li>
        )}
      </ol>
    </nav>
  );
}

// ConnectionPill says how fresh the page is. It pauses and resumes the live updates.
function ConnectionPill() {
  const c = useConnection();
  useNow(); // counts down
  const wait = Math.max(0, Math.ceil((c.retryAt - Date.now()) / 1000));
  const [tone, icon, word] =
    c.state === "live" ? ["good", "dot", "Live"]
    : c.state === "connecting" ? ["soft", "ring", "Connecting"]
    : c.state === "paused" ? ["warn", "pause", "Paused"]
    : c.state === "reconnecting" ? ["warn", "ring", wait > 0 ? `Reconnecting ${wait} s` : "Reconnecting"]
    : ["bad", "cross", `Offline since ${clock(c.since)}`];
  const paused = c.state === "paused";
  return (
    <>
      <button
        type="button"
        className={`pill tone-${tone}`}
        data-testid="connection"
        data-state={c.state}
        aria-label={`${word}. ${paused ? "Start" : "Stop"} live updates`}
        title={paused ? "Resume live updates (p)" : "Pause live updates (p)"}
        onClick={() => stream.pause(!paused)}
      >
        <Icon name={icon} spin={icon === "ring"} />
        <span>{word}</span>
      </button>
      <span className="visually-hidden" role="status">
        {c.state === "live" ? "The page is live" : paused ? "The page keeps still" : c.state === "offline" ? "The server is not reachable" : ""}
      </span>
    </>
  );
}
