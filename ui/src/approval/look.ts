import type { Look } from "../app/icon";

const looks: Record<string, Look> = {
  open: { icon: "hand", word: "Needs you", tone: "warn" },
  approved: { icon: "check", word: "Approved", tone: "good" },
  denied: { icon: "cross", word: "Denied", tone: "bad" },
  expired: { icon: "clock", word: "Expired", tone: "soft" },
  void: { icon: "stop", word: "Void", tone: "soft" },
};

// approvalLook returns how the state of an approval is shown.
export function approvalLook(state: string): Look {
  return looks[state] ?? { icon: "dot", word: state, tone: "soft" };
}

const classes: Record<string, Look> = {
  pure: { icon: "check", word: "Changes nothing", tone: "soft" },
  idempotent: { icon: "dot", word: "Can run twice", tone: "soft" },
};

// classLook returns how an effect class is shown beside a question. One that is not known counts as
// the strictest.
export function classLook(effect: string): Look {
  return classes[effect] ?? { icon: "hand", word: "Must not happen twice", tone: "bad" };
}
