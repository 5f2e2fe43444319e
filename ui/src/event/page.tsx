import { getRouteApi, Link } from "@tanstack/react-router";
import { Dialog, DialogTrigger, Popover } from "react-aria-components";
import { RequestFailed } from "../../client";
import { server } from "../app/api";
import { useTitle } from "../app/hooks";
import { NotFound } from "../app/notfound";
import { Button, CopyLine, Failure } from "../app/pieces";
import { useMay } from "../principal/principal";
import { oneLine, plural, safe } from "../text/text";
import { Detail } from "./detail";
import { Filters } from "./filters";
import { useLastSeq } from "./journal";
import { EventRows } from "./rows";
import "./event.css";

const route = getRouteApi("/sessions/$id/events");

// EventsPage shows the journal of a session.
export function EventsPage() {
  const { id } = route.useParams();
  return <Journal key={id} id={id} />;
}

function Journal({ id }: { id: string }) {
  const search = route.useSearch();
  const journal = useLastSeq(id);
  const { data: session, error, refetch } = journal.session;
  useTitle(session ? `Events of ${oneLine(session.title || "Untitled", 60)}` : "Events");
  if (error instanceof RequestFailed && (error.status === 404 || error.status === 400)) return <NotFound what="session" id={id} />;
  if (!session || journal.base === undefined) return <div className="center">{error ? <Failure error={error} onRetry={() => void refetch()} /> : <p role="status">Loading…</p>}</div>;
  return (
    <>
      <header className="head">
        <h1 dir="auto">Events of {safe(session.title || "Untitled")}</h1>
        <span className="soft small grow" data-testid="count">
          {plural(journal.top, "event")}
        </span>
        <nav className="row-of small" aria-label="Other views of the session">
          <Link to="/sessions/$id" params={{ id }}>
            Transcript
          </Link>
          <Link to="/sessions/$id/timeline" params={{ id }} search={{}}>
            Timeline
          </Link>
        </nav>
        <Export id={id} />
      </header>
      <Filters key={JSON.stringify({ ...search, seq: 0 })} id={id} search={search} />
      <div className={`split ${search.seq ? "open" : ""}`}>
        <EventRows id={id} search={search} journal={journal} key={JSON.stringify({ ...search, seq: 0 })} />
        {search.seq !== undefined && <Detail place={{ id, search, top: journal.top }} seq={search.seq} />}
      </div>
    </>
  );
}

function Export({ id }: { id: string }) {
  const { may, why } = useMay("admin");
  return (
    <DialogTrigger>
      <Button>Export…</Button>
      <Popover className="popover" placement="bottom end">
        <Dialog aria-label="Export">
          <p className="small">The session with its subagents, as JSON lines that an import restores. Confidential: it contains the session&apos;s secrets.</p>
          {may ? (
            <a href={new URL(`v1/sessions/${encodeURIComponent(id)}/export`, server).href} download={`${id}.jsonl`}>
              Download the export
            </a>
          ) : (
            <p className="small soft">{why}</p>
          )}
          <p className="small">Only the events:</p>
          <CopyLine text={`perdure event list ${id} -o jsonl`} />
        </Dialog>
      </Popover>
    </DialogTrigger>
  );
}
