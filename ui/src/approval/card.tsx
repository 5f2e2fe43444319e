import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { need } from "../../client";
import { api } from "../app/api";
import { useNow } from "../app/hooks";
import { Button, Failure } from "../app/pieces";
import type { Approval } from "../event/types";
import { useMay } from "../principal/principal";
import { duration, pretty, safe } from "../text/text";
import { LongText } from "../session/card";
import { classWords } from "../session/look";

// ApprovalCard asks for a decision about one call. The list of approvals has shortened arguments, so
// the card reads the exact ones, and sends their digest with the decision.
export function ApprovalCard({ approval }: { approval: Approval }) {
  const { may, why } = useMay("approve");
  const [note, setNote] = useState("");
  const [denying, setDenying] = useState(false);
  const now = useNow();
  const exact = useQuery({ queryKey: ["approval", approval.id], queryFn: ({ signal }) => need(api.GET("/v1/approvals/{id}", { signal, params: { path: { id: approval.id } } })) as Promise<Approval> });
  const decide = useMutation({
    mutationFn: (verdict: "approve" | "deny") =>
      need(
        api.POST(`/v1/approvals/{id}/${verdict}`, {
          params: { path: { id: approval.id } },
          body: { args_digest: exact.data?.args_digest ?? approval.args_digest, ...(verdict === "deny" && note.trim() ? { note: note.trim() } : {}) },
        } as never),
      ),
  });
  const shown = exact.data ?? approval;
  const done = decide.isPending || decide.isSuccess;
  return (
    <section className="approval" aria-label={`Approval of ${approval.tool}`} data-testid="approval">
      <h2>
        May <code>{safe(approval.tool)}</code> run?
      </h2>
      <p className="small">
        {classWords[approval.class] ?? approval.class}
        {approval.expires_at && ` · expires in ${duration(Date.parse(approval.expires_at) - now)}`}
      </p>
      {shown.reason && (
        <p className="small untrusted" dir="auto">
          Reason given, not verified: {safe(shown.reason)}
        </p>
      )}
      {exact.error ? <Failure error={exact.error} onRetry={() => void exact.refetch()} /> : <LongText text={exact.data ? pretty(exact.data.args) : "Loading the exact arguments…"} label="Exact arguments" />}
      {decide.error && <Failure error={decide.error} />}
      {!may ? (
        <p className="small">{why}</p>
      ) : denying ? (
        <form
          className="row-of"
          onSubmit={(e) => {
            e.preventDefault();
            decide.mutate("deny");
          }}
        >
          <input className="field" aria-label="What the model reads instead of a result" placeholder="Why not? The model reads this (optional)" value={note} onChange={(e) => setNote(e.target.value)} autoFocus />
          <Button type="submit" look="first" isDisabled={done}>
            Deny
          </Button>
          <Button onPress={() => setDenying(false)}>Back</Button>
        </form>
      ) : (
        <div className="row-of">
          <Button look="first" isDisabled={done || !exact.data} onPress={() => decide.mutate("approve")}>
            Approve once
          </Button>
          <Button isDisabled={done} onPress={() => setDenying(true)}>
            Deny…
          </Button>
          <span className="soft small">A denied call returns an error to the model, and the turn continues.</span>
        </div>
      )}
    </section>
  );
}
