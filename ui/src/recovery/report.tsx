import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { Icon } from "../app/icon";
import { Button } from "../app/pieces";
import "./ribbon.css";
import { headline, reasons, type Recovery } from "./words";

// Report says what a crash recovery did, and why it was safe.
export function Report({ recovery: r, onHide }: { recovery: Recovery; onHide: () => void }) {
  const [open, setOpen] = useState(false);
  return (
    <section className="ribbon" aria-label="Crash recovery" data-testid="ribbon">
      <p role="status">
        <Icon name="check" /> {headline(r)}.
      </p>
      <span className="row-of">
        {r.unknown > 0 && (
          <Link to="/tasks" search={{ tab: "failed" }}>
            {r.unknown} unknown: resolve
          </Link>
        )}
        {Object.keys(r.actions).length > 0 && (
          <Button look="bare" aria-expanded={open} onPress={() => setOpen(!open)}>
            {open ? "Less" : "Why it was safe"}
          </Button>
        )}
        <Button look="bare" onPress={onHide}>
          Hide
        </Button>
      </span>
      {open && (
        <ul className="small">
          {reasons(r).map((s) => (
            <li key={s}>{s}</li>
          ))}
          <li>Every effect was claimed before it started, and each take-over is in the journal of its session.</li>
        </ul>
      )}
    </section>
  );
}
