import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { need } from "../../client";
import { api } from "../app/api";
import { useNow, useTitle } from "../app/hooks";
import { State } from "../app/icon";
import { Failure } from "../app/pieces";
import { sessionLook } from "../session/look";
import { age, oneLine, plural } from "../text/text";
import type { Session } from "./types";
import "../session/list.css";
import "../session/session.css";
import "./event.css";

// ChooseJournal lists the newest sessions. Each session has a journal of its own.
export function ChooseJournal() {
  useTitle("Events");
  const now = useNow(5000);
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const recent = useQuery({ queryKey: ["sessions", "recent"], queryFn: ({ signal }) => need(api.GET("/v1/sessions", { signal, params: { query: { limit: 100 } } })), refetchInterval: 10_000 });
  const typed = text.trim();
  const found = ((recent.data?.items ?? []) as Session[]).filter((s) => `${s.title} ${s.id}`.toLowerCase().includes(typed.toLowerCase()));
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
        {recent.error && !recent.data ? <Failure error={recent.error} onRetry={() => void recent.refetch()} /> : null}
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
        {recent.data && found.length === 0 && <p className="center soft">{typed ? "None of the newest sessions matches. Enter opens a session by its whole id." : "There are no sessions yet."}</p>}
      </div>
    </>
  );
}
