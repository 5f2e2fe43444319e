import { useQuery } from "@tanstack/react-query";
import { need } from "../../client";
import { api } from "../app/api";
import { Icon } from "../app/icon";
import type { Session } from "../event/types";
import { oneLine, plural } from "../text/text";
import { belongs, effectOf, works, type Change } from "./affect";
import { decimal, micros, type Standing } from "./money";

const read = 200; // sessions, the newest
const named = 5;

// Affected says which sessions a budget would pause, before it is saved.
export function Affected({ budget, scope, subject, change }: { budget?: Standing; scope: string; subject: string; change: Change }) {
  const sessions = useQuery({ queryKey: ["sessions", "newest"], queryFn: ({ signal }) => need(api.GET("/v1/sessions", { signal, params: { query: { limit: read } } })) });
  const effect = effectOf(budget, change);
  const used = decimal(micros(budget?.spent) + micros(budget?.reserved));
  const own = ((sessions.data?.items ?? []) as Session[]).filter((s) => belongs(s, scope, subject));
  const working = own.filter(works);
  const verb = effect === "stop" ? "stop" : "pause";
  if (effect === "none") {
    return (
      <p className="notice small" role="status" data-testid="affected">
        <Icon name="check" /> No session pauses now{budget ? `: ${used} of ${change.limit} is used` : ", because a new budget has counted nothing yet"}.
      </p>
    );
  }
  return (
    <div className="notice small" role="status" data-testid="affected">
      <p className="tone-warn">
        <Icon name="pause" /> <strong>{used} is used already, so sessions {verb} at their next step.</strong>
      </p>
      {sessions.data ? (
        <>
          <p>
            {working.length > 0 ? `${plural(working.length, "session")} that work now:` : "None works now."}{" "}
            {working.slice(0, named).map((s) => oneLine(s.title || s.id, 50)).join(", ")}
            {working.length > named && ` and ${working.length - named} more`}
          </p>
          <p className="soft">
            {plural(own.length - working.length, "idle session")} would {verb} with the next message
            {sessions.data.next ? ` (of the newest ${read} sessions)` : ""}.
          </p>
        </>
      ) : (
        <p className="soft">Counting the sessions…</p>
      )}
    </div>
  );
}
