import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { RequestFailed } from "../../client";
import { useTitle } from "../app/hooks";
import { NotFound } from "../app/notfound";
import { Button, Failure } from "../app/pieces";
import { oneLine, safe } from "../text/text";
import { useSessionTimeline } from "./read";
import { View } from "./view";

const route = getRouteApi("/sessions/$id/timeline");

// TimelinePage shows what a session did, and when.
export function TimelinePage() {
  const { id } = route.useParams();
  return <OfSession key={id} id={id} />;
}

function OfSession({ id }: { id: string }) {
  const search = route.useSearch();
  const { session, read, drawn } = useSessionTimeline(id);
  const title = session.data?.title || "Untitled";
  const titles = useMemo(() => new Map([[id, title]]), [id, title]);
  useTitle(session.data ? `Timeline of ${oneLine(title, 60)}` : "Timeline");
  const error = session.error ?? read.error;
  if (error instanceof RequestFailed && (error.status === 404 || error.status === 400)) return <NotFound what="session" id={id} />;
  if (!session.data || !read.data) return <div className="center">{error ? <Failure error={error} onRetry={() => void read.refetch()} /> : <p role="status">Loading…</p>}</div>;
  return (
    <>
      <header className="head">
        <h1 dir="auto">Timeline of {safe(title)}</h1>
        <span className="grow" />
        <nav className="row-of small" aria-label="Other views of the session">
          <Link to="/sessions/$id" params={{ id }}>
            Transcript
          </Link>
          <Link to="/sessions/$id/events" params={{ id }} search={{}}>
            Events
          </Link>
        </nav>
        {read.hasNextPage && (
          <Button isDisabled={read.isFetchingNextPage} onPress={() => void read.fetchNextPage()}>
            {read.isFetchingNextPage ? "Reading…" : "Read earlier work"}
          </Button>
        )}
      </header>
      <View drawn={drawn} search={search} titles={titles} />
    </>
  );
}
