import { Link } from "@tanstack/react-router";
import { memo } from "react";
import { State } from "../app/icon";
import { RowCost } from "../cost/row";
import type { Task } from "../event/types";
import { classWords } from "../session/look";
import { age, oneLine } from "../text/text";
import { heartbeat } from "./heartbeat";
import { ended, rowLook, statusOf } from "./look";
import { fraction, progressWords } from "./rate";

type Props = { session: string; task: Task; now: number; readAt: number; beatMs: number; left: boolean; perSecond: number | undefined; picked: boolean; onPick: (on: boolean) => void };

// lastLine returns what a task said last.
function lastLine(t: Task): string {
  if (t.state === "awaiting_input" && t.input_request) return t.input_request.prompt;
  if (ended(t.state)) return t.error?.message || t.summary || t.narration || t.tool;
  return statusOf(t) || t.tail?.trimEnd().split("\n").at(-1) || t.narration || t.tool;
}

// TaskRow shows one task on one height, whatever it says.
export const TaskRow = memo(function TaskRow({ session, task: t, now, readAt, beatMs, left, perSecond, picked, onPick }: Props) {
  const name = oneLine(t.display_name || t.tool, 120);
  const beat = heartbeat(t, readAt, beatMs);
  const part = fraction(t.progress);
  return (
    <>
      <label className="pick">
        <input type="checkbox" aria-label={`Select ${name}`} checked={picked} onChange={(e) => onPick(e.target.checked)} />
      </label>
      <Link to="/tasks/$id" params={{ id: t.id }} className="line">
        {left ? <State look={{ icon: "detach", word: "Left this list", tone: "soft" }} /> : <State look={rowLook(t)} />}
        <span className="title" dir="auto">
          {name}
          <small>{oneLine(lastLine(t), 200)}</small>
        </span>
        <span className="col progresscol small soft">
          {t.progress?.current !== undefined && (
            <>
              <progress max={1} value={part ?? undefined} aria-label="Progress" />
              <span>{progressWords(t.progress, ended(t.state) ? undefined : perSecond)}</span>
            </>
          )}
        </span>
        <span className="col classcol small">
          <span className="pill" title={classWords[t.effect_class]}>
            {t.effect_class.replaceAll("_", " ")}
          </span>
          {t.cost && <RowCost cost={t.cost} />}
        </span>
        <span className="col beatcol small">
          {beat && <span className={`tone-${beat.tone}`}>{beat.words}</span>}
          {t.attempt > 1 && <span className="soft">attempt {t.attempt}</span>}
        </span>
        <span className="col sessioncol small soft" dir="auto">
          {session}
        </span>
        <span className="soft small age">{age(t.finished_at || t.started_at || t.created_at, now)}</span>
      </Link>
    </>
  );
});
