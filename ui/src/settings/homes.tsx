import { useQuery } from "@tanstack/react-query";
import { need, type Schemas } from "../../client";
import { api } from "../app/api";
import { age, plural, safe } from "../text/text";
import { Lines, Loaded } from "./pieces";

type Home = Schemas["Home"];

// Homes lists the data directories of the servers that share the database, and what waits for each.
export function Homes({ now }: { now: number }) {
  const read = useQuery({ queryKey: ["homes"], queryFn: ({ signal }) => need<{ items: Home[] | null }>(api.GET("/v1/homes", { signal })), refetchInterval: 10_000 });
  return (
    <section className="settings-part" aria-labelledby="homes">
      <h2 id="homes">Homes</h2>
      <p className="small">The data directories of the servers that share this database. Commands that keep running and files of sessions are bound to one.</p>
      <Loaded read={read}>
        {(d) => (
          <Lines
            label="Homes"
            empty="No server has used this database yet."
            lines={(d.items ?? []).map((h) => ({
              id: h.id,
              title: (
                <>
                  {safe(h.host) || "unknown machine"} <code>{h.id}</code>
                  {h.here && " · this server"}
                </>
              ),
              detail: `${h.present ? "running" : `last seen ${age(h.seen_at, now)}`}${waiting(h)}`,
              look: h.present
                ? { icon: "check", word: "Running", tone: "good" }
                : h.waiting_sessions + h.waiting_tasks > 0
                  ? { icon: "clock", word: "Awaited", tone: "warn" }
                  : { icon: "dot", word: "Away", tone: "soft" },
            }))}
          />
        )}
      </Loaded>
    </section>
  );
}

// waiting says what waits for a home.
function waiting(h: Home): string {
  if (h.waiting_sessions + h.waiting_tasks === 0) return "";
  return `; ${plural(h.waiting_sessions, "session")} and ${plural(h.waiting_tasks, "task")} wait for it`;
}
