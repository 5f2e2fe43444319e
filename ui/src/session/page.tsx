import { getRouteApi } from "@tanstack/react-router";
import { RequestFailed } from "../../client";
import { useTitle } from "../app/hooks";
import { NotFound } from "../app/notfound";
import { Failure } from "../app/pieces";
import { oneLine } from "../text/text";
import { Composer } from "./composer";
import { Dock } from "./dock";
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
