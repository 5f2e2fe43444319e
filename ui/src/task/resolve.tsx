import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { need } from "../../client";
import { api, queries } from "../app/api";
import { Button, CopyLine, Failure } from "../app/pieces";
import type { Task } from "../event/types";
import { useMay } from "../principal/principal";

type Answer = "happened" | "did_not_happen" | "run_again";
type Body = { outcome: Answer; result?: unknown; note?: string };

const answers: { answer: Answer; word: string; about: string }[] = [
  { answer: "happened", word: "It happened", about: "The task becomes Done. The model reads that it happened. Nothing runs." },
  { answer: "did_not_happen", word: "It did not happen", about: "The task becomes Failed. The model reads that it did not happen, and may call it again. Nothing runs." },
  { answer: "run_again", word: "Run it again", about: "The task is queued and runs once more. If the effect did happen, it happens twice." },
];

// useResolution holds what a person found out.
export function useResolution() {
  const [answer, setAnswer] = useState<Answer>();
  const [note, setNote] = useState("");
  const [result, setResult] = useState("");
  const body: Body = { outcome: answer ?? "happened", ...(note.trim() ? { note: note.trim() } : {}), ...(answer === "happened" && result.trim() ? { result: valueOf(result.trim()) } : {}) };
  return { answer, setAnswer, note, setNote, result, setResult, body, ready: answer !== undefined };
}

// valueOf returns a text as the JSON that it is, or as text.
function valueOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

export const sendResolution = (id: string, body: Body) => need(api.POST("/v1/tasks/{id}/resolve", { params: { path: { id } }, body } as never));

// Answers lets a person say what happened, with what each answer does.
export function Answers({ state, many = false }: { state: ReturnType<typeof useResolution>; many?: boolean }) {
  return (
    <>
      <fieldset className="answers">
        <legend>What did you find?</legend>
        {answers.map((a) => (
          <label key={a.answer}>
            <input type="radio" name="outcome" checked={state.answer === a.answer} onChange={() => state.setAnswer(a.answer)} />
            <span>
              {a.word}
              <small>{a.about}</small>
            </span>
          </label>
        ))}
      </fieldset>
      {state.answer === "happened" && !many && (
        <label>
          Result <span className="soft">(optional: what it returned, as text or JSON)</span>
          <textarea className="field" rows={2} value={state.result} onChange={(e) => state.setResult(e.target.value)} spellCheck={false} />
        </label>
      )}
      <label>
        Note <span className="soft">(optional: where you looked)</span>
        <input className="field" value={state.note} onChange={(e) => state.setNote(e.target.value)} />
      </label>
    </>
  );
}

const flags: Record<Answer, string> = { happened: "--happened", did_not_happen: "--did-not-happen", run_again: "--run-again" };

// Resolve is the panel of a task whose outcome is unknown, with its dialog.
export function Resolve({ task }: { task: Task }) {
  const { may, why } = useMay("approve");
  const [open, setOpen] = useState(false);
  return (
    <section className="notice odd" aria-label="Unknown outcome" data-testid="unknown">
      <p>
        <strong>Claimed, outcome unknown.</strong> The worker of this task ended between claim and outcome, and its effect must not happen twice, so it was not run again. Check at the other service
        whether the effect is there, then record what you found. Until then the same call is not made again.
      </p>
      {may ? (
        <p>
          <Button look="first" onPress={() => setOpen(true)}>
            Resolve…
          </Button>
        </p>
      ) : (
        <p className="small">{why}</p>
      )}
      {open && (
        <ModalOverlay className="backdrop" isDismissable isOpen onOpenChange={setOpen}>
          <Modal className="modal">
            <Dialog>
              <Form task={task} close={() => setOpen(false)} />
            </Dialog>
          </Modal>
        </ModalOverlay>
      )}
    </section>
  );
}

function Form({ task, close }: { task: Task; close: () => void }) {
  const state = useResolution();
  const send = useMutation({
    mutationFn: () => sendResolution(task.id, state.body),
    onSuccess: (now) => {
      queries.setQueryData(["task", task.id], now);
      void queries.invalidateQueries({ queryKey: ["task-events", task.id] });
      void queries.invalidateQueries({ queryKey: ["task-counts"] });
      close();
    },
  });
  return (
    <form
      className="stack"
      onSubmit={(e) => {
        e.preventDefault();
        if (state.ready) send.mutate();
      }}
    >
      <Heading slot="title" level={2}>
        Resolve an unknown outcome
      </Heading>
      <Answers state={state} />
      {send.error && <Failure error={send.error} />}
      <CopyLine text={`perdure task resolve ${task.id} ${flags[state.answer ?? "happened"]}`} />
      <div className="row-of">
        <Button type="submit" look="first" isDisabled={!state.ready || send.isPending}>
          {send.isPending ? "Recording…" : "Record it"}
        </Button>
        <Button onPress={close}>Back</Button>
      </div>
    </form>
  );
}
