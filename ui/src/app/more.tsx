import { Link } from "@tanstack/react-router";
import { Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { signOut } from "../principal/principal";
import { Icon } from "./icon";
import type { Page } from "./pages";
import { Button } from "./pieces";
import "../session/new.css";

// More is the sheet with the pages that the bar at the bottom has no room for.
export function More({ name, pages, onKeys, onClose }: { name: string; pages: Page[]; onKeys: () => void; onClose: () => void }) {
  return (
    <ModalOverlay className="backdrop sheet-back" isDismissable isOpen onOpenChange={(open) => !open && onClose()}>
      <Modal className="modal sheet">
        <Dialog>
          <Heading slot="title" level={2} className="visually-hidden">
            More pages
          </Heading>
          <ul className="sheet-list">
            {pages
              .filter((p) => p.more)
              .map((p) => (
                <li key={p.to}>
                  <Link to={p.to as "/sessions"} onClick={onClose}>
                    <Icon name={p.icon} />
                    {p.word}
                  </Link>
                </li>
              ))}
            <li>
              <Button look="bare" onPress={() => (onClose(), onKeys())}>
                <Icon name="keys" />
                Keys
              </Button>
            </li>
            <li>
              <Button look="bare" onPress={() => void signOut()} aria-label={`Sign out (${name})`}>
                <Icon name="leave" />
                Sign out
              </Button>
            </li>
          </ul>
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}
