import type { Look } from "../app/icon";
import { duration, oneLine } from "../text/text";
import { endOf, startOf, total, type Bar } from "./fold";

export const kindWords: Record<Bar["kind"], string> = { model: "model call", tool: "call", task: "task", subagent: "subagent", pause: "pause" };

const looks: Record<Bar["state"], Look> = {
  open: { icon: "ring", word: "Running", tone: "live" },
  done: { icon: "check", word: "Done", tone: "good" },
  failed: { icon: "cross", word: "Failed", tone: "bad" },
  canceled: { icon: "stop", word: "Canceled", tone: "soft" },
  unknown: { icon: "ask", word: "Unknown outcome", tone: "odd" },
};

// barLook returns how the state of a bar is shown.
export function barLook(b: Bar): Look {
  if (b.state === "open" && b.parts.at(-1)?.kind === "human") return { icon: "hand", word: b.kind === "pause" ? "Paused" : "Needs a person", tone: "warn" };
  if (b.state === "open" && b.parts.at(-1)?.kind === "queue") return { icon: "clock", word: "Queued", tone: "soft" };
  return looks[b.state];
}

// nameOf says all that a bar shows, for those who do not see it.
export const nameOf = (b: Bar) => `${oneLine(b.name, 120)}, ${spansOf(b)}`;

// spansOf is nameOf without the name.
export function spansOf(b: Bar): string {
  const spans = ([["queue", "queued"], ["run", "ran"], ["human", "waited for a person"], ["gap", "waited to try again"]] as const)
    .map(([kind, word]) => [word, total(b, kind)] as const)
    .filter(([word, ms]) => ms > 0 || (word === "ran" && b.kind !== "pause"))
    .map(([word, ms]) => `${word} ${duration(ms)}`);
  return [kindWords[b.kind], ...spans, barLook(b).word.toLowerCase(), b.outlives ? "outlives its turn" : ""].filter(Boolean).join(", ");
}

// span returns how long a bar lasted.
export const span = (b: Bar) => duration(endOf(b) - startOf(b));
