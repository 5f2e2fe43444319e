// What a change of a budget does to the sessions of its subject.
import type { Session } from "../event/types";
import { micros, type Standing } from "./money";

export type Change = { limit: string; soft: string; action: string };

// Effect says what happens to sessions when they next spend: nothing, a pause that a person can end, or a
// stop until something is left.
export type Effect = "none" | "pause" | "stop";

// effectOf follows the rules of the server: what was spent and what is reserved count.
export function effectOf(b: Pick<Standing, "spent" | "reserved"> | undefined, c: Change): Effect {
  if (c.action === "warn") return "none";
  const used = micros(b?.spent) + micros(b?.reserved);
  if (micros(c.limit) - used <= 0n) return c.action === "pause" ? "pause" : "stop";
  return micros(c.soft) > 0n && used >= micros(c.soft) ? "pause" : "none";
}

// belongs reports whether a budget applies to a session.
export function belongs(s: Session, scope: string, subject: string): boolean {
  switch (scope) {
    case "session":
      return s.id === subject || s.root_session_id === subject || s.parent_session_id === subject;
    case "agent":
      return s.agent.id === subject || s.agent.name === subject;
    case "user":
      return (s.user || "user") === subject;
  }
  return true;
}

// works reports whether a session spends now, or will without a new message.
export function works(s: Session): boolean {
  return s.state === "active" || s.open_tasks > 0;
}

// isAmount reports whether a text is an amount that a budget accepts.
export function isAmount(text: string): boolean {
  return /^\d+(\.\d{1,6})?$/.test(text);
}
