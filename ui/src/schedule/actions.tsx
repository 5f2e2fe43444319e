import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { need } from "../../client";
import { api } from "../app/api";
import { ActionLines } from "../app/lines";
import { Button } from "../app/pieces";
import { useMay } from "../principal/principal";
import { line } from "../text/shell";
import { oneLine, plural } from "../text/text";
import { Backfill } from "./backfill";
import { FormDialog } from "./dialog";
import { does, type Schedule } from "./look";
import { changed } from "./read";

type Ask = "trigger" | "pause" | "resume" | "backfill" | "delete";

// Actions are what a person can do with a schedule. Each one is confirmed in a dialog that shows its
// command.
export function Actions({ s }: { s: Schedule }) {
  const { may, why } = useMay("write");
  const [ask, setAsk] = useState<Ask>();
  if (!may) return <span className="soft small">{why}</span>;
  const close = () => setAsk(undefined);
  const button = (a: Ask, word: string) => (
    <Button key={a} onPress={() => setAsk(a)}>
      {word}
    </Button>
  );
  return (
    <span className="row-of">
      {button("trigger", "Trigger…")}
      {s.enabled ? button("pause", "Pause…") : button("resume", "Resume…")}
      {s.cron_expression && button("backfill", "Backfill…")}
      {button("delete", "Delete…")}
      {ask === "backfill" ? <Backfill s={s} onClose={close} /> : ask === "delete" ? <Delete s={s} onClose={close} /> : ask ? <Simple s={s} ask={ask} onClose={close} /> : null}
    </span>
  );
}

const simple = {
  trigger: { title: "Trigger this schedule", act: "Fire now", about: "It fires once, now, even while the previous fire is running. Its next fires do not change." },
  pause: { title: "Pause this schedule", act: "Pause", about: "It does not fire until somebody resumes it. Times that pass meanwhile are not made up." },
  resume: { title: "Resume this schedule", act: "Resume", about: "It fires from now on. Times that have passed are not made up; backfill fires for them." },
} as const;

function Simple({ s, ask, onClose }: { s: Schedule; ask: keyof typeof simple; onClose: () => void }) {
  const [reason, setReason] = useState("");
  const { title, act, about } = simple[ask];
  const body = ask === "pause" && reason.trim() ? { reason: reason.trim() } : {};
  const run = useMutation({
    mutationFn: () => need(api.POST(`/v1/schedules/{id}/${ask}`, { params: { path: { id: s.id } }, body } as never)),
    onSuccess: onClose,
    onSettled: () => changed(s.id),
  });
  const words = ["perdure", "schedule", ask, s.id, ...(body.reason ? ["--why", body.reason] : [])];
  return (
    <FormDialog title={title} act={run.isPending ? "Sending…" : act} onClose={onClose} submit={() => run.mutate()} busy={run.isPending} error={run.error}>
      <p>{about}</p>
      {ask === "trigger" && <p className="soft small untrusted">It {does(s)}</p>}
      {ask === "pause" && (
        <label>
          Reason <span className="soft">(recorded in the journal)</span>
          <input className="field" value={reason} onChange={(e) => setReason(e.target.value)} maxLength={400} autoFocus />
        </label>
      )}
      <ActionLines cli={line(...words)} curl={{ method: "POST", path: `/v1/schedules/${s.id}/${ask}`, body }} />
    </FormDialog>
  );
}

// Delete removes a schedule for ever, so its title is typed first.
function Delete({ s, onClose }: { s: Schedule; onClose: () => void }) {
  const navigate = useNavigate();
  const [typed, setTyped] = useState("");
  const name = oneLine(s.title ?? "", 200) || s.id;
  const run = useMutation({
    mutationFn: () => need(api.DELETE("/v1/schedules/{id}", { params: { path: { id: s.id } } } as never)),
    onSuccess: async () => {
      await navigate({ to: "/schedules", search: {} });
      await changed();
    },
  });
  return (
    <FormDialog title="Delete this schedule" act={run.isPending ? "Deleting…" : "Delete"} onClose={onClose} submit={() => run.mutate()} ready={typed.trim() === name.trim()} busy={run.isPending} error={run.error}>
      <p>
        The schedule and the history of its {plural(s.trigger_count, "fire")} are deleted for ever{s.monitor_task_id ? ", and its monitor and running work are canceled" : ""}. Its session stays.
      </p>
      <label>
        Type <code className="untrusted">{name}</code> to confirm
        <input className="field" value={typed} onChange={(e) => setTyped(e.target.value)} autoComplete="off" spellCheck={false} autoFocus />
      </label>
      <ActionLines cli={line("perdure", "schedule", "delete", s.id)} curl={{ method: "DELETE", path: `/v1/schedules/${s.id}` }} />
    </FormDialog>
  );
}
