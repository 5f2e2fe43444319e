import { useState, type ReactNode } from "react";
import { Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { server } from "../app/api";
import { Button, CopyLine, Failure } from "../app/pieces";
import { curlLine, type Request } from "../text/shell";
import { useAct } from "./act";
import "../session/new.css";

// Window is a dialog of the settings.
export function Window({ title, children, onClose, fixed }: { title: string; children: ReactNode; onClose: () => void; fixed?: boolean }) {
  return (
    <ModalOverlay className="backdrop" isDismissable={!fixed} isOpen onOpenChange={(open) => !open && onClose()}>
      <Modal className="modal settings-modal">
        <Dialog>
          <div className="stack">
            <Heading slot="title" level={2}>
              {title}
            </Heading>
            {children}
          </div>
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

// Cli shows how an action is done on the command line, and with curl.
export function Cli({ text, curl }: { text: string; curl?: Request }) {
  return (
    <div className="cli">
      <span className="soft small">The same on the command line</span>
      <CopyLine text={text} />
      {curl && (
        <details className="small">
          <summary className="soft">With curl</summary>
          <CopyLine text={curlLine(server.href, curl)} />
        </details>
      )}
    </div>
  );
}

type AskProps = { title: string; children?: ReactNode; action: string; word?: string; cli: string; curl: Request; run: () => Promise<unknown>; onClose: () => void };

// Ask asks before an act. With a word, that word has to be typed: the act cannot be undone.
export function Ask({ title, children, action, word, cli, curl, run, onClose }: AskProps) {
  const [typed, setTyped] = useState("");
  const act = useAct(run, onClose);
  return (
    <Window title={title} onClose={onClose}>
      <form
        className="stack"
        onSubmit={(e) => {
          e.preventDefault();
          act.run();
        }}
      >
        {children}
        {word !== undefined && (
          <label>
            <span>
              This cannot be undone. Type <code className="untrusted">{word}</code> to confirm
            </span>
            <input className="field" value={typed} onChange={(e) => setTyped(e.target.value)} autoFocus autoComplete="off" spellCheck={false} />
          </label>
        )}
        {act.error ? <Failure error={act.error} /> : null}
        <div className="row-of danger">
          <Button type="submit" look="first" isDisabled={act.pending || (word !== undefined && typed !== word)}>
            {act.pending ? "Working…" : action}
          </Button>
          <Button onPress={onClose} autoFocus={word === undefined}>
            Cancel
          </Button>
        </div>
        <Cli text={cli} curl={curl} />
      </form>
    </Window>
  );
}

// Once shows a secret that the server does not show again. It is in the state of this component only,
// and goes with it.
export function Once({ title, secret, children, onClose }: { title: string; secret: string; children: ReactNode; onClose: () => void }) {
  return (
    <Window title={title} onClose={onClose} fixed>
      <p>{children}</p>
      <div data-testid="secret">
        <CopyLine text={secret} />
      </div>
      <div className="row-of">
        <Button look="first" onPress={onClose}>
          I have stored it
        </Button>
      </div>
    </Window>
  );
}
