import { serverNow } from "../app/clock";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { need } from "../../client";
import { api } from "../app/api";
import { ActionLines } from "../app/lines";
import { line } from "../text/shell";
import { plural } from "../text/text";
import { FormDialog } from "./dialog";
import type { Fire, Schedule } from "./look";
import { changed } from "./read";
import { inZone, localIn, momentIn } from "./when";

const listed = 20; // fires that the dialog names

// Backfill fires for times that have passed: a period, then what would fire, then the confirmation.
export function Backfill({ s, onClose }: { s: Schedule; onClose: () => void }) {
  const [from, setFrom] = useState(() => localIn(serverNow() - 86_400_000, s.timezone));
  const [to, setTo] = useState(() => localIn(serverNow() - 60_000, s.timezone));
  const range = { from: momentIn(from, s.timezone), to: momentIn(to, s.timezone) };
  const send = (dry_run: boolean) => need<{ items: Fire[] }>(api.POST("/v1/schedules/{id}/backfill", { params: { path: { id: s.id } }, body: { ...range, dry_run } } as never));
  const count = useMutation({ mutationFn: () => send(true) });
  const fire = useMutation({ mutationFn: () => send(false), onSettled: () => changed(s.id), onSuccess: onClose });
  const found = count.data?.items;
  const change = (set: (text: string) => void) => (e: { target: { value: string } }) => {
    set(e.target.value);
    count.reset();
    fire.reset();
  };
  const act = fire.isPending ? "Firing…" : count.isPending ? "Counting…" : found?.length ? `Fire ${plural(found.length, "time")}` : "Count the fires";
  const valid = !!range.from && !!range.to;
  return (
    <FormDialog
      title="Backfill"
      act={act}
      onClose={onClose}
      submit={() => (found?.length ? fire.mutate() : count.mutate())}
      ready={valid && found?.length !== 0}
      busy={count.isPending || fire.isPending}
      error={fire.error ?? count.error}
    >
      <p>It fires for each planned time of a past period that has no fire yet. A time that has fired does not fire twice.</p>
      <div className="pair">
        <label>
          From <span className="soft">({s.timezone})</span>
          <input className="field" type="datetime-local" value={from} onChange={change(setFrom)} />
        </label>
        <label>
          To <span className="soft">({s.timezone})</span>
          <input className="field" type="datetime-local" value={to} onChange={change(setTo)} />
        </label>
      </div>
      <div role="status">
        {found && (found.length === 0 ? <p>No time of this period is without a fire.</p> : <Found fires={found} zone={s.timezone} />)}
      </div>
      {valid && (
        <ActionLines
          cli={line("perdure", "schedule", "backfill", s.id, "--from", range.from!, "--to", range.to!)}
          curl={{ method: "POST", path: `/v1/schedules/${s.id}/backfill`, body: { ...range, dry_run: !found } }}
        />
      )}
    </FormDialog>
  );
}

function Found({ fires, zone }: { fires: Fire[]; zone: string }) {
  return (
    <>
      <p>
        <strong>It would fire {plural(fires.length, "time")}.</strong> Nothing has fired yet.
      </p>
      <ul className="plain small soft">
        {fires.slice(0, listed).map((f) => (
          <li key={f.nominal_at}>{inZone(f.nominal_at, zone)}</li>
        ))}
        {fires.length > listed && <li>and {fires.length - listed} more</li>}
      </ul>
    </>
  );
}
