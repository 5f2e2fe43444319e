import { useNavigate } from "@tanstack/react-router";
import { useEffect, useId, useMemo, useRef, useState } from "react";
import { Dialog, Modal, ModalOverlay } from "react-aria-components";
import { Icon } from "../app/icon";
import { VerbForm } from "./form";
import { useTargets, type Target } from "./items";
import { search } from "./search";
import { verbs } from "./verbs";
import "../session/new.css";
import "./command.css";

// Palette finds anything, and runs the verbs of the CLI.
export function Palette({ text, onClose }: { text: string; onClose: () => void }) {
  const [verb, setVerb] = useState("");
  const [query, setQuery] = useState(text);
  const navigate = useNavigate();
  const choose = (t: Target) => {
    if (t.verb) return setVerb(t.verb);
    onClose();
    void navigate({ to: t.to as "/sessions", search: {} as never });
  };
  const chosen = verbs.find((v) => v.verb === verb);
  return (
    <ModalOverlay className="backdrop palette-back" isDismissable isOpen onOpenChange={(open) => !open && onClose()}>
      <Modal className="modal palette">
        <Dialog aria-label={chosen ? `perdure ${chosen.verb}` : "Search, or run a command"}>
          {chosen ? <VerbForm key={chosen.verb} verb={chosen} onBack={() => setVerb("")} onClose={onClose} /> : <Search query={query} setQuery={setQuery} choose={choose} />}
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

function Search({ query, setQuery, choose }: { query: string; setQuery: (q: string) => void; choose: (t: Target) => void }) {
  const list = useId();
  const targets = useTargets(query);
  const found = useMemo(() => search(query, targets) as Target[], [query, targets]);
  const [at, setAt] = useState(0);
  const box = useRef<HTMLUListElement>(null);
  const current = Math.min(at, found.length - 1);
  useEffect(() => {
    box.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [current]);
  const move = (by: number) => setAt(Math.max(0, Math.min(found.length - 1, current + by)));
  const steps: Record<string, () => void> = { ArrowDown: () => move(1), ArrowUp: () => move(-1), PageDown: () => move(8), PageUp: () => move(-8), Enter: () => found[current] && choose(found[current]) };
  return (
    <>
      <div className="palette-field">
        <Icon name="search" />
        <input
          role="combobox"
          aria-expanded="true"
          aria-controls={list}
          aria-activedescendant={found[current] ? `${list}-${current}` : undefined}
          aria-autocomplete="list"
          aria-label="Search, or run a command"
          placeholder="Find a session, a task, a page, or a command of the CLI"
          autoFocus
          spellCheck={false}
          value={query}
          onChange={(e) => (setQuery(e.target.value), setAt(0))}
          onKeyDown={(e) => {
            const step = steps[e.key];
            if (!step || e.nativeEvent.isComposing) return;
            e.preventDefault();
            step();
          }}
        />
        <kbd>esc</kbd>
      </div>
      <ul id={list} role="listbox" aria-label="Found" ref={box} className="palette-list">
        {found.map((t, i) => (
          <li key={`${t.group} ${t.id}`} id={`${list}-${i}`} role="option" aria-selected={i === current} onMouseMove={() => i !== current && setAt(i)} onClick={() => choose(t)}>
            <Icon name={t.icon} />
            <span className="title" dir="auto">
              {t.verb ? <code>{t.title}</code> : t.title}
            </span>
            <small dir="auto">{t.about}</small>
            {found[i - 1]?.group !== t.group && <span className="group">{t.group}</span>}
          </li>
        ))}
      </ul>
      <p className="visually-hidden" role="status">
        {found.length === 0 ? "Nothing was found" : `${found.length} found`}
      </p>
      {found.length === 0 && <p className="palette-none soft">Nothing has these words. A session or task that is not among the newest is found by its whole id.</p>}
    </>
  );
}
