import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { need } from "../../client";
import { api } from "../app/api";
import { Button, CopyLine, Failure } from "../app/pieces";
import type { Session } from "../event/types";
import "./new.css";

const choices = [
  { effects: "ask", word: "Ask before each", about: "Every call that changes something needs an approval." },
  { effects: "dry_run", word: "Perform none", about: "Calls only report what they would do." },
] as const;

// Fork starts a session from the transcript of this one. What was recorded is reused: no effect is
// repeated.
export function Fork({ session, onClose }: { session: Session; onClose: () => void }) {
  return (
    <ModalOverlay className="backdrop" isDismissable isOpen onOpenChange={(open) => !open && onClose()}>
      <Modal className="modal">
        <Dialog>
          <Form session={session} close={onClose} />
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

function Form({ session, close }: { session: Session; close: () => void }) {
  const [title, setTitle] = useState(session.title ? `${session.title} (fork)`.slice(0, 512) : "");
  const [seq, setSeq] = useState("");
  const [effects, setEffects] = useState<"ask" | "dry_run">("ask");
  const navigate = useNavigate();
  const at = Number(seq || session.last_seq);
  const wrong = !Number.isInteger(at) || at < 1 || at > session.last_seq;
  const fork = useMutation({
    mutationFn: () =>
      need(
        api.POST("/v1/sessions/{id}/fork", {
          params: { path: { id: session.id } },
          body: { effects, ...(seq ? { at_seq: at } : {}), ...(title.trim() ? { title: title.trim() } : {}) },
        } as never),
      ) as Promise<Session>,
    onSuccess: (made) => {
      close();
      void navigate({ to: "/sessions/$id", params: { id: made.id } });
    },
  });
  return (
    <form
      className="stack"
      onSubmit={(e) => {
        e.preventDefault();
        if (!wrong) fork.mutate();
      }}
    >
      <Heading slot="title" level={2}>
        Fork this session
      </Heading>
      <p className="small soft">The fork has the transcript and its recorded results. Nothing that happened is done again.</p>
      {fork.error && <Failure error={fork.error} />}
      <label>
        Title
        <input className="field" value={title} onChange={(e) => setTitle(e.target.value)} maxLength={512} autoFocus />
      </label>
      <label>
        Up to event <span className="soft">(1 to {session.last_seq}; empty: the latest)</span>
        <input className="field" inputMode="numeric" value={seq} onChange={(e) => setSeq(e.target.value.trim())} aria-invalid={wrong} placeholder={String(session.last_seq)} />
      </label>
      <fieldset className="answers">
        <legend>New effects</legend>
        {choices.map((c) => (
          <label key={c.effects} className="choice-line">
            <input type="radio" name="effects" checked={effects === c.effects} onChange={() => setEffects(c.effects)} />
            <span>
              {c.word} <span className="soft small">{c.about}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <CopyLine text={`perdure session fork ${session.id}${seq && !wrong ? ` --at ${at}` : ""}${effects === "dry_run" ? " --effects dry-run" : ""}`} />
      <div className="row-of">
        <Button type="submit" look="first" isDisabled={fork.isPending || wrong}>
          {fork.isPending ? "Forking…" : "Fork"}
        </Button>
        <Button onPress={close}>Cancel</Button>
      </div>
    </form>
  );
}
