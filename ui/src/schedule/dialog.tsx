import type { ReactNode } from "react";
import { Dialog as AriaDialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { Button, Failure } from "../app/pieces";
import "../session/new.css";
import "./schedule.css";

// FormDialog asks for what an action needs, and does it. An error stays in the dialog.
export function FormDialog({ title, act, onClose, submit, ready = true, busy, error, children }: {
  title: string;
  act: string; // the word on the button
  onClose: () => void;
  submit: () => void;
  ready?: boolean;
  busy: boolean;
  error: unknown;
  children: ReactNode;
}) {
  return (
    <ModalOverlay className="backdrop" isDismissable isOpen onOpenChange={(open) => !open && onClose()}>
      <Modal className="modal broad">
        <AriaDialog>
          <form
            className="stack"
            onSubmit={(e) => {
              e.preventDefault();
              if (ready && !busy) submit();
            }}
          >
            <Heading slot="title" level={2}>
              {title}
            </Heading>
            {children}
            {error ? <Failure error={error} /> : null}
            <div className="row-of">
              <Button type="submit" look="first" isDisabled={!ready} aria-busy={busy}>
                {act}
              </Button>
              <Button onPress={onClose}>Close</Button>
            </div>
          </form>
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}
