import { useState } from "react";
import { Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { keysOn, switchKeys, useKeyGroups } from "./keys";
import { Button } from "./pieces";
import "../session/new.css";
import "./keylist.css";

// KeyList shows the shortcuts of this page, and switches those of a single key off.
export function KeyList({ onClose }: { onClose: () => void }) {
  const groups = useKeyGroups();
  const [on, setOn] = useState(keysOn);
  return (
    <ModalOverlay className="backdrop" isDismissable isOpen onOpenChange={(open) => !open && onClose()}>
      <Modal className="modal keylist">
        <Dialog>
          <div className="stack">
            <Heading slot="title" level={2}>
              Keys
            </Heading>
            <label className="row-of">
              <input
                type="checkbox"
                checked={on}
                onChange={(e) => {
                  switchKeys(e.target.checked);
                  setOn(e.target.checked);
                }}
              />
              Shortcuts of a single key
            </label>
            {groups.toReversed().map((g, i) => (
              <section key={g.name + i} aria-label={g.name}>
                <h3 className="small soft">{g.name}</h3>
                <dl>
                  {g.keys.map((k) => (
                    <div key={k.key} data-off={!on && !k.key.startsWith("ctrl+") ? "" : undefined}>
                      <dt>
                        <Keycaps name={k.key} />
                      </dt>
                      <dd>{k.about}</dd>
                    </div>
                  ))}
                </dl>
              </section>
            ))}
            <p className="soft small">None of them works while you type or a dialog is open.</p>
            <Button onPress={onClose} autoFocus>
              Close
            </Button>
          </div>
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

// Keycaps shows what is to be pressed.
function Keycaps({ name }: { name: string }) {
  const mac = /Mac|iPhone|iPad/.test(navigator.platform);
  const parts = name.startsWith("ctrl+") ? [mac ? "⌘" : "Ctrl", name.slice(5).toUpperCase()] : name.split(" ");
  return parts.map((p, i) => <kbd key={i}>{p}</kbd>);
}
