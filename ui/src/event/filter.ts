// Filter is what the address of a page of events holds. seq is the event that is open.
export type Filter = { types?: string; of?: string; actor?: string; text?: string; since?: string; until?: string };
export type EventSearch = Filter & { seq?: number };

const words = ["types", "of", "actor", "text", "since", "until"] as const;

// readSearch takes what it knows from an address.
export function readSearch(s: Record<string, unknown>): EventSearch {
  const out: EventSearch = {};
  for (const w of words) {
    const value = s[w];
    if (typeof value === "string" && value !== "") out[w] = value;
    if (typeof value === "number") out[w] = String(value);
  }
  const seq = Number(s.seq);
  if (Number.isSafeInteger(seq) && seq > 0) out.seq = seq;
  return out;
}

// filterOf returns the part of an address that selects events.
export function filterOf(s: EventSearch): Filter {
  const { seq: _, ...filter } = s;
  return filter;
}

export const isFiltered = (f: Filter) => words.some((w) => f[w]);

// eventTypes are the types of the journal by their first word, in the order of the catalogue.
export const eventTypes: Record<string, string[]> = {
  session: ["created", "forked", "updated", "activated", "waiting", "idled", "stopped", "paused", "resumed"],
  message: ["received"],
  turn: ["started", "interrupt_requested", "loop_detected", "completed", "failed", "canceled", "sealed"],
  reason: ["started", "recovered", "completed"],
  output: ["message.started", "message.replaced", "message.completed"],
  llm: ["generation"],
  transcript: ["repaired"],
  context: ["compacted"],
  act: ["started", "completed"],
  tool: ["started", "taken_over", "detach_requested", "detach_refused", "detached", "call_requested", "replanned", "completed", "unknown", "resolved"],
  task: ["created", "updated", "reattached", "cancel_requested", "cancel_receipt", "resolved", "delivered", "pruned", "message.sent", "message.received"],
  approval: ["requested", "resolved"],
  delivery: ["held"],
  schedule: ["created", "fired", "skipped", "paused", "canceled"],
  audit: ["recorded"],
  egress: ["denied"],
  file: ["written"],
  budget: ["warning", "paused", "exhausted", "resumed"],
  resource: ["updated"],
  lease: ["expired", "cleanup_failed"],
};

// chosenTypes returns the types that a filter names. A group is either whole (group.*) or a set of types.
export function chosenTypes(types: string | undefined): Set<string> {
  const chosen = new Set<string>();
  for (const one of (types ?? "").split(",")) {
    const group = one.endsWith(".*") ? one.slice(0, -2) : "";
    if (eventTypes[group]) eventTypes[group].forEach((t) => chosen.add(`${group}.${t}`));
    else if (one) chosen.add(one);
  }
  return chosen;
}

// typesText is the inverse of chosenTypes.
export function typesText(chosen: Set<string>): string | undefined {
  const rest = new Set(chosen);
  const out: string[] = [];
  for (const [group, types] of Object.entries(eventTypes)) {
    const names = types.map((t) => `${group}.${t}`);
    if (names.every((n) => rest.has(n))) out.push(names.length > 1 ? `${group}.*` : names[0]!);
    else out.push(...names.filter((n) => rest.has(n)));
    names.forEach((n) => rest.delete(n));
  }
  return [...out, ...rest].join(",") || undefined;
}

// moment returns a time that a person typed as the API wants it: a time of today, a local time, or an
// age such as 2h. undefined: it is none of these.
export function moment(text: string, now: number): string | undefined {
  const typed = text.trim();
  const ago = /^(\d+(?:\.\d+)?) ?(s|m|min|h|d)$/.exec(typed);
  if (ago) {
    const unit = { s: 1, m: 60, min: 60, h: 3600, d: 86400 }[ago[2] as "s" | "m" | "min" | "h" | "d"];
    return new Date(now - Number(ago[1]) * unit * 1000).toISOString();
  }
  const clock = /^(\d{1,2}):(\d{2})(?::(\d{2}))?$/.exec(typed);
  if (clock) {
    const day = new Date(now);
    day.setHours(Number(clock[1]), Number(clock[2]), Number(clock[3] ?? 0), 0);
    return day.toISOString();
  }
  const at = /^\d{4}-\d{2}-\d{2}/.test(typed) ? Date.parse(typed.replace(/^(\d{4}-\d{2}-\d{2})$/, "$1T00:00")) : NaN;
  return Number.isNaN(at) ? undefined : new Date(at).toISOString();
}
