import { useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";

const pauseMs = 200; // of typing, before the server is asked

// TitleField searches the titles of all sessions. The words are in the address.
export function TitleField({ text, state }: { text: string; state: string | undefined }) {
  const navigate = useNavigate();
  const [typed, setTyped] = useState(text);
  const sent = useRef(text);
  useEffect(() => {
    if (text !== sent.current) setTyped(text); // by a link, or back
    sent.current = text;
  }, [text]);
  useEffect(() => {
    if (typed === sent.current) return;
    const timer = setTimeout(() => {
      sent.current = typed;
      void navigate({ to: "/sessions", search: { ...(state ? { state } : {}), ...(typed.trim() ? { q: typed } : {}) }, replace: true });
    }, pauseMs);
    return () => clearTimeout(timer);
  }, [typed, state, navigate]);
  return <input className="field titlefield" type="search" aria-label="Search titles" placeholder="Search titles" value={typed} onChange={(e) => setTyped(e.target.value)} maxLength={100} spellCheck={false} autoComplete="off" />;
}
