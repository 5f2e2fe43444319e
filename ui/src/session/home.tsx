import type { Session } from "../event/types";
import { duration, oneLine } from "../text/text";

// AtHome says for which home a session waits, and since when.
export function AtHome({ home, now }: { home: NonNullable<Session["home"]>; now: number }) {
  return (
    <span className="tone-warn small" role="status" data-testid="waits-for-home">
      Its files are at {homeName(home)}. It has waited for a server there for {duration(now - Date.parse(home.waits_since!))}.
    </span>
  );
}

// homeName names a home for people.
export function homeName(home: { id: string; host: string }): string {
  return home.host ? `home ${home.id} on ${oneLine(home.host, 80)}` : `home ${home.id}`;
}
