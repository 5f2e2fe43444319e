import { useState } from "react";
import { Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { need } from "../../client";
import { api, queries } from "../app/api";
import { serverNow } from "../app/clock";
import { Button, Failure } from "../app/pieces";
import type { Task } from "../event/types";
import { changeRow, readAgain } from "../list/paged";
import { useMay } from "../principal/principal";
import { oneLine, plural } from "../text/text";
import { Answers, sendResolution, useResolution } from "./resolve";
import { able, retryWords, runAll, unable, type Outcome, type Verb } from "./run";

const names: Record<Verb, string> = { cancel: "Cancel", retry: "Retry", resolve: "Resolve" };

// BulkBar offers what can be done with the selected tasks.
export function BulkBar({ tasks, onDone }: { tasks: Task[]; onDone: () => void }) {
  const write = useMay("write");
  const approve = useMay("approve");
  const [verb, setVerb] = useState<Verb>();
  const count = (v: Verb) => tasks.filter((t) => able(v, t)).length;
  if (!write.may && !approve.may) return <span className="soft small">{write.why}</span>;
  return (
    <span className="row-of">
      {(["cancel", "retry", "resolve"] as const)
        .filter((v) => (v === "resolve" ? approve.may : write.may))
        .map((v) => (
          <Button key={v} isDisabled={count(v) === 0} onPress={() => setVerb(v)}>
            {names[v]}… {count(v)}
          </Button>
        ))}
      <Button look="bare" onPress={onDone}>
        Clear selection
      </Button>
      {verb && (
        <ModalOverlay className="backdrop" isDismissable isOpen onOpenChange={(open) => !open && setVerb(undefined)}>
          <Modal className="modal">
            <Dialog>
              <Form
                verb={verb}
                tasks={tasks}
                close={(done) => {
                  setVerb(undefined);
                  if (done) onDone();
                }}
              />
            </Dialog>
          </Modal>
        </ModalOverlay>
      )}
    </span>
  );
}

// Form says what would happen before it does, and afterwards what happened.
function Form({ verb, tasks: now, close }: { verb: Verb; tasks: Task[]; close: (done: boolean) => void }) {
  const [tasks] = useState(now); // as they were when the question was asked
  const chosen = tasks.filter((t) => able(verb, t));
  const others = tasks.length - chosen.length;
  const [outcome, setOutcome] = useState<Outcome>();
  const [busy, setBusy] = useState(false);
  const answer = useResolution();
  const act = async (t: Task) => {
    if (verb === "resolve") return sendResolution(t.id, answer.body);
    await need(api.POST(verb === "cancel" ? "/v1/tasks/{id}/cancel" : "/v1/tasks/{id}/retry", { params: { path: { id: t.id } }, body: {} } as never));
    if (verb === "cancel") changeRow<Task>(["task-pages"], t.id, { cancel_requested_at: new Date(serverNow()).toISOString() });
  };
  const go = async () => {
    setBusy(true);
    setOutcome(await runAll(chosen, act, setOutcome));
    setBusy(false);
    if (verb !== "cancel") void readAgain(["task-pages"]);
    void queries.invalidateQueries({ queryKey: ["task-counts"] });
  };
  const classes = [...new Set(chosen.map((t) => t.effect_class))];
  const over = outcome && !busy;
  return (
    <div className="stack">
      <Heading slot="title" level={2}>
        {names[verb]} {plural(chosen.length, "task")}
      </Heading>
      <p data-testid="dry-run">
        This {verb === "retry" ? "retries" : `${verb}s`} {plural(chosen.length, "task")} of the {tasks.length} selected.{others > 0 && ` The other ${others} ${unable[verb]}.`}
      </p>
      <ul className="names small">
        {chosen.slice(0, 8).map((t) => (
          <li key={t.id}>{oneLine(t.display_name || t.tool, 80)}</li>
        ))}
        {chosen.length > 8 && <li className="soft">and {chosen.length - 8} more</li>}
      </ul>
      {verb === "retry" && classes.map((c) => <p key={c} className="small">{retryWords[c] ?? c}</p>)}
      {verb === "resolve" && !outcome && <Answers state={answer} many />}
      {outcome && (
        <p role="status">
          {outcome.done} of {chosen.length} done{outcome.failed.length > 0 ? `, ${outcome.failed.length} refused` : ""}.
        </p>
      )}
      {outcome?.failed.slice(0, 3).map((f) => <Failure key={f.task.id} error={new Error(`${oneLine(f.task.display_name || f.task.tool, 60)}: ${f.why}`)} />)}
      <div className="row-of">
        {over ? (
          <Button look="first" autoFocus onPress={() => close(true)}>
            Close
          </Button>
        ) : (
          <>
            <Button look="first" isDisabled={busy || chosen.length === 0 || (verb === "resolve" && !answer.ready)} onPress={() => void go()}>
              {busy ? "Working…" : `${names[verb]} ${plural(chosen.length, "task")}`}
            </Button>
            <Button isDisabled={busy} onPress={() => close(false)}>
              Back
            </Button>
          </>
        )}
      </div>
    </div>
  );
}
