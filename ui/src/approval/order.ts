import type { Approval } from "../event/types";
import { instant, type Order } from "../list/pages";

// irreversible reports whether a call must not happen twice: nobody can take it back by running it
// again.
export function irreversible(a: Approval): boolean {
  return a.class !== "pure" && a.class !== "idempotent";
}

const risk = (a: Approval) => (irreversible(a) ? 0 : a.class === "idempotent" ? 1 : 2);

const requested = new WeakMap<Approval, number>();

// requestedAt returns when an approval was requested, in microseconds.
export function requestedAt(a: Approval): number {
  let at = requested.get(a);
  if (at === undefined) requested.set(a, (at = instant(a.requested_at)));
  return at;
}

// byRisk is the order of the server with order=risk: by risk, and the ones that wait longest first.
export const byRisk: Order<Approval> = (a, b) => risk(a) - risk(b) || requestedAt(a) - requestedAt(b) || (a.id < b.id ? -1 : 1);

// equals returns the other open approvals that ask for the same: the same tool, byte-equal arguments and
// the same permissions. One decision may be given to all of them.
export function equals(a: Approval, open: readonly Approval[]): Approval[] {
  const rights = (x: Approval) => JSON.stringify([...new Set(x.permissions.map((p) => JSON.stringify([p.kind, p.target])))].sort());
  return open.filter((o) => o.id !== a.id && o.args_digest !== "" && o.args_digest === a.args_digest && o.tool === a.tool && o.class === a.class && rights(o) === rights(a));
}

const quickMs = 2000; // from question to approval: too short to have read it
const fewest = 10; // decisions from which a habit can be seen

// hasty says how many of the last decisions were approvals within two seconds, if they are more than
// 90 %.
export function hasty(history: readonly Approval[]): { quick: number; of: number } | undefined {
  const decided = history.filter((a) => (a.state === "approved" || a.state === "denied") && a.decided_at);
  const quick = decided.filter((a) => a.state === "approved" && Date.parse(a.decided_at!) - Date.parse(a.requested_at) < quickMs).length;
  return decided.length >= fewest && quick > 0.9 * decided.length ? { quick, of: decided.length } : undefined;
}

// hosts returns where the URLs among the arguments lead, as a browser would read them. The name of a
// host is in its ASCII form, so that letters of other alphabets cannot imitate it.
export function hosts(args: unknown): string[] {
  const found = new Set<string>();
  const visit = (value: unknown, depth: number) => {
    if (typeof value === "string" && /^(https?|wss?|ftp):/i.test(value.trim())) {
      try {
        found.add(new URL(value.trim()).host);
      } catch {
        // no URL
      }
    } else if (depth > 0 && value && typeof value === "object") Object.values(value).forEach((v) => visit(v, depth - 1));
  };
  visit(args, 3);
  return [...found].filter(Boolean);
}
