import { Icon } from "../app/icon";
import { useNow } from "../app/hooks";
import { oneLine } from "../text/text";
import type { NextFire } from "./look";
import { inZone, until } from "./when";

// NextFires lists future fires, each with what a change of the clocks does to it.
export function NextFires({ fires, zone }: { fires: NextFire[] | undefined; zone: string }) {
  const now = useNow(1000);
  if (!fires) return <p className="soft small">Loading…</p>;
  if (fires.length === 0) return <p className="soft small">It has no more fires.</p>;
  return (
    <ol className="next-fires">
      {fires.map((f) => (
        <li key={f.at}>
          <time dateTime={f.at}>{inZone(f.at, zone)}</time>
          <span className="soft">{until(f.at, now)}</span>
          {f.note && (
            <p className="tone-warn">
              <Icon name="clock" /> {oneLine(f.note, 300)}
            </p>
          )}
        </li>
      ))}
    </ol>
  );
}
