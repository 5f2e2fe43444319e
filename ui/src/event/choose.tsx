import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { need } from "../../client";
import { api } from "../app/api";
import { useNow, useSettled, useTitle } from "../app/hooks";
import { State } from "../app/icon";
import { Button, Failure } from "../app/pieces";
import { usePages } from "../list/read";
import { sessionLook } from "../session/look";
import { age, oneLine, plural } from "../text/text";
import type { Session } from "./types";
import "../session/list.css";
import "../session/session.css";
import "./event.css";

// ChooseJournal lists the sessions, the newest first. Each session has a journal of its own.
export function ChooseJournal() {
  useTitle("Events");
  const now = useNow(5000);
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const typed = text.trim();
  const words = useSettled(/^session_\w*$/.test(typed) ? "" : typed.slice(0, 60), 200);
  const recent = usePages<Session>(["journals", words], (at, signal) => need(api.GET("/v1/sessions", { signal, params: { query: { ...at, ...(words ? { text: words } : {}) } } })), { every: 10_000 });
  const found = (recent.rows ?? []).filter((s) => !typed.startsWith("session_") || s.id.startsWith(typed));
  const open = () => {
    const id = /^session_\w+$/.test(typed) ? typed : found[0]?.id;
    if (id) void navigate({ to: "/sessions/$id/events", params: { id }, search: {} });
  };
  return (
    <>
      <header className="head">
        <h1>Events</h1>
        <form
          className="grow"
          role="search"
          onSubmit={(e) => {
            e.preventDefault();
            open();
          }}
        >
          <input className="field" type="search" aria-label="Title or id of a session" placeholder="Title or id of a session" value={text} onChange={(e) => setText(e.target.value)} />
        </form>
      </header>
      <div className="scroll">
        <p className="center small soft">Each session has a journal of its own: every fact, in order. Choose a session.</p>
        {recent.error && !recent.rows ? <Failure error={recent.error} onRetry={() => void recent.refetch()} /> : null}
        <ul className="journals">
          {found.map((s) => (
            <li key={s.id}>
              <Link to="/sessions/$id/events" params={{ id: s.id }} search={{}}>
                <State look={sessionLook(s)} />
                <span className="what" dir="auto">
                  {oneLine(s.title || "Untitled", 120)}
                </span>
                <span className="soft small">
                  {plural(s.last_seq, "event")} · {age(s.updated_at, now)}
                </span>
              </Link>
            </li>
          ))}
        </ul>
        {recent.hasNextPage && (
          <p className="center">
            <Button isDisabled={recent.isFetchingNextPage} onPress={() => void recent.fetchNextPage()}>
              Read older ones
            </Button>
          </p>
        )}
        {recent.rows && found.length === 0 && <p className="center soft">{typed ? "No session has all of these words in its title. Enter opens a session by its whole id." : "There are no sessions yet."}</p>}
      </div>
    </>
  );
}
