import { Link } from "@tanstack/react-router";
import type { Event, Task } from "../event/types";
import { clock, oneLine } from "../text/text";
import { lifeline } from "./lifeline";

// LifeLine shows what became of a task, step by step.
export function LifeLine({ task, events, now }: { task: Task; events: readonly Event[]; now: number }) {
  return (
    <ol className="life" aria-label="Life of the task">
      {lifeline(task, events, now).map((s) =>
        "words" in s ? (
          <li key={s.key} className="gap">
            {s.words}
          </li>
        ) : (
          <li key={s.key} className={`step ${s.tone}`} aria-current={s.tone === "now" ? "step" : undefined}>
            <span className="word">
              {s.seq !== undefined ? (
                <Link to="/tasks/$id" params={{ id: task.id }} search={{ tab: "events", seq: s.seq }}>
                  {s.word}
                </Link>
              ) : (
                s.word
              )}
            </span>
            <small className="soft">{[s.at ? clock(s.at) : "", s.about ? oneLine(s.about, 120) : ""].filter(Boolean).join(", ") || "not yet"}</small>
          </li>
        ),
      )}
    </ol>
  );
}
