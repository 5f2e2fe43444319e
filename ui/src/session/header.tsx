import { Link } from "@tanstack/react-router";
import { useMutation } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { need } from "../../client";
import { api, queries } from "../app/api";
import { useConnection, useNow } from "../app/hooks";
import { State } from "../app/icon";
import { Button } from "../app/pieces";
import type { Session } from "../event/types";
import { useMay } from "../principal/principal";
import { clock, duration, modelName, oneLine, safe } from "../text/text";
import { Figures } from "./figures";
import { Interrupt } from "./interrupt";
import { sessionLook } from "./look";
import type { Reading } from "./reader";
import type { Spend } from "./spend";

const AtHome = lazy(async () => ({ default: (await import("./home")).AtHome }));
const More = lazy(async () => ({ default: (await import("./more")).More })); // a menu is much code

// Header says what a session is and does, and has its actions.
export function Header({ session, reading, busy, spend }: { session: Session; reading: Reading; busy: boolean; spend: Spend | undefined }) {
  const now = useNow();
  const c = useConnection();
  const look = busy && session.state !== "paused" && session.needs_you === 0 ? sessionLook({ ...session, state: "active" }) : sessionLook(session);
  return (
    <header className="head">
      <h1 dir="auto">{safe(session.title || "Untitled")}</h1>
      <span data-testid="session-state">
        <State look={look} />
      </span>
      <span className="soft small grow about">
        {session.agent.name && `${oneLine(session.agent.name, 60)} · `}
        {session.agent.model ? modelName(session.agent.model) : "default model"}
        {reading.turn && ` · this turn ${duration(now - Date.parse(reading.turn.startedAt))}, step ${reading.turn.step}`}
        {c.state === "offline" && ` · as of ${clock(c.since)}`}
      </span>
      {session.home?.waits_since && (
        <Suspense>
          <AtHome home={session.home} now={now} />
        </Suspense>
      )}
      <Figures data={spend} reading={reading} />
      <nav className="row-of small" aria-label="Other views of the session">
        <Link to="/sessions/$id/timeline" params={{ id: session.id }} search={{}}>
          Timeline
        </Link>
        <Link to="/sessions/$id/events" params={{ id: session.id }} search={{}}>
          Events
        </Link>
      </nav>
      <span className="row-of">
        <Actions session={session} busy={busy} />
        <Suspense fallback={<Button isDisabled>More</Button>}>
          <More session={session} reading={reading} busy={busy} />
        </Suspense>
      </span>
    </header>
  );
}

function Actions({ session, busy }: { session: Session; busy: boolean }) {
  const write = useMay("write");
  const approve = useMay("approve");
  const act = useMutation({
    mutationFn: (verb: "pause" | "resume") => need(api.POST(`/v1/sessions/{id}/${verb}`, { params: { path: { id: session.id } }, body: {} } as never)),
    onSettled: () => queries.invalidateQueries({ queryKey: ["session", session.id] }),
  });
  return (
    <>
      {act.error && (
        <span className="tone-bad small" role="alert">
          {oneLine(act.error.message, 200)}
        </span>
      )}
      {write.may && busy && <Interrupt session={session.id} />}
      {session.state === "paused" ? (
        approve.may ? (
          <Button isDisabled={act.isPending} onPress={() => act.mutate("resume")}>
            Resume
          </Button>
        ) : (
          <span className="soft small">{approve.why}</span>
        )
      ) : (
        write.may && (
          <Button isDisabled={act.isPending} onPress={() => act.mutate("pause")}>
            Pause
          </Button>
        )
      )}
    </>
  );
}
