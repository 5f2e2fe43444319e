import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTitle } from "../app/hooks";
import { Failure } from "../app/pieces";
import { plural } from "../text/text";
import { sessionsAtOnce, useAllTimelines } from "./read";
import { View } from "./view";

const route = getRouteApi("/timeline");

// TimelineOfAll shows what the sessions that changed last did.
export function TimelineOfAll() {
  const search = route.useSearch();
  const { sessions, newest, reads, drawn } = useAllTimelines();
  const titles = useMemo(() => new Map(newest.map((s) => [s.id, s.title || "Untitled"])), [newest]);
  useTitle("Timeline");
  const error = sessions.error ?? reads.error;
  const shown = useMemo(() => ({ group: "session" as const, ...search }), [search]);
  return (
    <>
      <header className="head">
        <h1>Timeline</h1>
        <span className="soft small grow">
          {newest.length > 0 && `the latest work of ${newest.length === sessionsAtOnce ? `the ${sessionsAtOnce} sessions that changed last` : plural(newest.length, "session")}`}
        </span>
      </header>
      {error && drawn.bars.length === 0 ? (
        <div className="center">
          <Failure error={error} onRetry={() => void sessions.refetch()} />
        </div>
      ) : sessions.isPending || (reads.pending && drawn.bars.length === 0) ? (
        <p className="center" role="status">
          Loading…
        </p>
      ) : (
        <View drawn={drawn} search={shown} titles={titles} />
      )}
    </>
  );
}
