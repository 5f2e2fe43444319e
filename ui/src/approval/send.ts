import { need, RequestFailed } from "../../client";
import { api, queries } from "../app/api";
import type { Approval } from "../event/types";
import { forget } from "./read";

// Verdict is a decision about questions that are byte-equal.
export type Verdict = { verdict: "approve" | "deny"; note: string; all: readonly Approval[] };

// Outcome says for how many questions the decision counts, and which ones somebody else had decided.
export type Outcome = { verdict: Verdict["verdict"]; counts: number; late: Approval[] };

// decide sends a decision for each question. Of several decisions about one the first counts, so a
// conflict with it is no failure.
export async function decide({ verdict, note, all }: Verdict): Promise<Outcome> {
  const outcome: Outcome = { verdict, counts: 0, late: [] };
  try {
    for (const a of all) {
      const late = await send(a, verdict, note);
      if (late) outcome.late.push(late);
      else outcome.counts++;
    }
  } finally {
    forget(all);
    void queries.invalidateQueries({ queryKey: ["approval"] });
    void queries.invalidateQueries({ queryKey: ["approvals"] });
  }
  return outcome;
}

// send returns the approval as somebody else has decided it before, or undefined.
async function send(a: Approval, verdict: Verdict["verdict"], note: string): Promise<Approval | undefined> {
  const path = { id: a.id };
  try {
    await need(api.POST(`/v1/approvals/{id}/${verdict}`, { params: { path }, body: { args_digest: a.args_digest, ...(note ? { note } : {}) } } as never));
    return undefined;
  } catch (err) {
    if (!(err instanceof RequestFailed) || err.status !== 409) throw err;
    const now = await need<Approval>(api.GET("/v1/approvals/{id}", { params: { path } }));
    if (now.state === "open") throw err;
    return now;
  }
}
