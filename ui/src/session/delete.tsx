import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { need } from "../../client";
import { api, queries } from "../app/api";
import type { Session, Task } from "../event/types";
import { Ending } from "../task/ending";
import { byDelete } from "../task/life";
import { line } from "../text/shell";

const waitFor = "20s"; // of one request, for the end of a task or of a turn

// Delete removes a session permanently. The server refuses it while work of the session has not ended, so
// the dialog names that work, and cancels it only if the person chooses so.
export function Delete({ session, busy, onClose }: { session: Session; busy: boolean; onClose: () => void }) {
  const navigate = useNavigate();
  const [typed, setTyped] = useState("");
  const digits = session.id.slice(-6);
  const path = { path: { id: session.id } };
  const run = async (also: readonly Task[]) => {
    for (const t of also) await need(api.GET("/v1/tasks/{id}", { params: { path: { id: t.id }, query: { wait: waitFor } } }));
    if (also.length > 0) await need(api.GET("/v1/sessions/{id}", { params: { ...path, query: { wait: waitFor } } })); // the model reads of the cancels
    await need(api.DELETE("/v1/sessions/{id}", { params: path } as never));
    void queries.invalidateQueries({ queryKey: ["sessions"] });
    await navigate({ to: "/sessions", search: {} });
  };
  return (
    <Ending
      act={{ title: "Delete this session", button: "Delete", session: session.id, run, cli: line("perdure", "session", "delete", session.id), curl: { method: "DELETE", path: `/v1/sessions/${session.id}` } }}
      share={(all) => byDelete(session.id, all)}
      required="A session is deleted only when all of its work has ended."
      ready={typed.trim() === digits && !busy}
      onClose={onClose}
    >
      <p>Its journal, its files and the sessions of its subagents are deleted, too.</p>
      {busy && <p className="tone-warn">A turn is running. Interrupt it first, or wait for its end.</p>}
      <label>
        <span>
          This cannot be undone. Type <code>{digits}</code>, the end of its id, to confirm
        </span>
        <input className="field" value={typed} onChange={(e) => setTyped(e.target.value)} autoFocus autoComplete="off" spellCheck={false} />
      </label>
    </Ending>
  );
}
