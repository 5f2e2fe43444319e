import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { oneLine, safe } from "../text/text";
import type { EventSearch } from "./filter";
import { readPage } from "./journal";
import type { Event } from "./types";

// Place is the list in which an event is looked at.
export type Place = { id: string; search: EventSearch; top: number };

// thingsOf returns what an event belongs to, the narrowest first.
function thingsOf(e: Event): { word: string; id: string }[] {
  const d = (e.data ?? {}) as { call_id?: string; task?: { id?: string }; task_id?: string; turn_id?: string; approval_id?: string };
  const all = [
    { word: "call", id: e.call_id ?? d.call_id },
    { word: "task", id: e.task_id ?? d.task?.id ?? d.task_id },
    { word: "approval", id: d.approval_id },
    { word: "turn", id: e.turn_id ?? d.turn_id },
  ];
  return all.filter((t): t is { word: string; id: string } => typeof t.id === "string" && t.id !== "");
}

// Same leads to the events of the same call, task or turn.
export function Same({ place, event }: { place: Place; event: Event }) {
  const things = thingsOf(event);
  if (things.length === 0) return null;
  return (
    <section>
      <h3>Of the same thing</h3>
      <ul className="same">
        {things.map((t) => (
          <li key={t.word}>
            <span>
              {t.word}{" "}
              <Link to="/sessions/$id/events" params={{ id: place.id }} search={{ of: t.id, seq: event.seq }} className="mono">
                {oneLine(t.id, 60)}
              </Link>
            </span>
            <Neighbour place={place} of={t.id} seq={event.seq} way="before" />
            <Neighbour place={place} of={t.id} seq={event.seq} way="after" />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Neighbour({ place, of, seq, way }: { place: Place; of: string; seq: number; way: "before" | "after" }) {
  const next = useQuery({
    queryKey: ["event of", place.id, of, seq, way, way === "after" ? place.top : 0],
    queryFn: async ({ signal }) => (await readPage(place.id, { of, [way]: String(seq), limit: 1 }, signal)).items[0] ?? null,
    staleTime: Infinity,
  });
  const word = way === "before" ? "previous" : "next";
  if (!next.data) return <span className="soft small">{next.isPending ? "…" : `no ${word}`}</span>;
  return (
    <Link to="/sessions/$id/events" params={{ id: place.id }} search={{ ...place.search, seq: next.data.seq }} className="small">
      {way === "before" && "‹ "}
      {word}: #{next.data.seq} {safe(next.data.type)}
      {way === "after" && " ›"}
    </Link>
  );
}
