import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { need } from "../../client";
import { api } from "../app/api";
import { Button, Failure } from "../app/pieces";
import "./new.css";

// NewSession starts a session of a stored agent, or of one without instructions.
export function NewSession({ onClose }: { onClose: () => void }) {
  return (
    <ModalOverlay className="backdrop" isDismissable isOpen onOpenChange={(open) => !open && onClose()}>
      <Modal className="modal">
        <Dialog>
          <Form close={onClose} />
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

function Form({ close }: { close: () => void }) {
  const [title, setTitle] = useState("");
  const [agent, setAgent] = useState("");
  const navigate = useNavigate();
  const agents = useQuery({ queryKey: ["agents"], queryFn: ({ signal }) => need(api.GET("/v1/agents", { signal, params: { query: { limit: 200 } } })) });
  const start = useMutation({
    mutationFn: () =>
      need(api.POST("/v1/sessions", { params: { header: {} as never }, body: { ...(agent ? { agent_id: agent } : { agent: {} }), ...(title.trim() ? { title: title.trim() } : {}) } as never })),
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
        start.mutate();
      }}
    >
      <Heading slot="title" level={2}>
        New session
      </Heading>
      {start.error && <Failure error={start.error} />}
      <label>
        Title <span className="soft">(optional)</span>
        <input className="field" value={title} onChange={(e) => setTitle(e.target.value)} maxLength={512} autoFocus />
      </label>
      <label>
        Agent
        <select className="field" value={agent} onChange={(e) => setAgent(e.target.value)}>
          <option value="">No instructions, default model</option>
          {agents.data?.items.map((a) => (
            <option key={a.id || a.name} value={a.id || a.name}>
              {a.name}
            </option>
          ))}
        </select>
      </label>
      <div className="row-of">
        <Button type="submit" look="first" isDisabled={start.isPending}>
          {start.isPending ? "Starting…" : "Start"}
        </Button>
        <Button onPress={close}>Cancel</Button>
      </div>
    </form>
  );
}
