import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Dialog, DialogTrigger, Heading, Modal, ModalOverlay } from "react-aria-components";
import { need } from "../../client";
import { api } from "../app/api";
import { Button, CopyLine, Failure } from "../app/pieces";
import { useMay } from "../principal/principal";
import { safe } from "../text/text";
import type { CallEntry } from "./transcript";
import "./new.css";

const answers = [
  { outcome: "happened", word: "It happened", about: "The model reads that it happened. Nothing runs.", flag: "--happened" },
  { outcome: "did_not_happen", word: "It did not happen", about: "The model reads that it did not, and may call it again. Nothing runs.", flag: "--did-not-happen" },
] as const;

// ResolveCall records what a person found out about a foreground call whose outcome is unknown.
export function ResolveCall({ call, session }: { call: CallEntry; session: string }) {
  const { may, why } = useMay("approve");
  if (!may) return <p className="small soft">{why}</p>;
  return (
    <DialogTrigger>
      <Button look="first">Resolve…</Button>
      <ModalOverlay className="backdrop" isDismissable>
        <Modal className="modal">
          <Dialog>{({ close }) => <Form call={call} session={session} close={close} />}</Dialog>
        </Modal>
      </ModalOverlay>
    </DialogTrigger>
  );
}

function Form({ call, session, close }: { call: CallEntry; session: string; close: () => void }) {
  const [outcome, setOutcome] = useState<(typeof answers)[number]["outcome"]>();
  const [note, setNote] = useState("");
  const act = useMutation({
    mutationFn: () =>
      need(api.POST("/v1/sessions/{id}/calls/{call}/resolve", { params: { path: { id: session, call: call.id } }, body: { outcome: outcome!, ...(note.trim() ? { note: note.trim() } : {}) } } as never)),
    onSuccess: close,
  });
  return (
    <form
      className="stack"
      onSubmit={(e) => {
        e.preventDefault();
        if (outcome) act.mutate();
      }}
    >
      <Heading slot="title" level={2}>
        What happened to <code>{safe(call.name)}</code>?
      </Heading>
      <p className="small soft">Look at the other service first. The turn has continued without this call, so it is not run again.</p>
      {act.error && <Failure error={act.error} />}
      <fieldset className="answers">
        <legend>What did you find?</legend>
        {answers.map((a) => (
          <label key={a.outcome} className="choice-line">
            <input type="radio" name="outcome" checked={outcome === a.outcome} onChange={() => setOutcome(a.outcome)} />
            <span>
              {a.word} <span className="soft small">{a.about}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <label>
        Note <span className="soft">(optional: where you looked)</span>
        <input className="field" value={note} onChange={(e) => setNote(e.target.value)} />
      </label>
      <CopyLine text={`perdure call resolve ${session}/${call.id} ${answers.find((a) => a.outcome === outcome)?.flag ?? "--happened"}`} />
      <div className="row-of">
        <Button type="submit" look="first" isDisabled={!outcome || act.isPending}>
          Record it
        </Button>
        <Button onPress={close}>Cancel</Button>
      </div>
    </form>
  );
}
