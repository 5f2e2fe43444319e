import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { need } from "../../client";
import { api, queries } from "../app/api";
import { ActionLines } from "../app/lines";
import { FormDialog } from "../schedule/dialog";
import { line } from "../text/shell";
import { Affected } from "./affected";
import { isAmount } from "./affect";
import { subjectWords, type Standing } from "./money";

type Form = { scope: string; subject: string; currency: string; period: string; limit: string; soft: string; action: string };

const begin: Form = { scope: "org", subject: "default", currency: "usd", period: "month", limit: "", soft: "", action: "stop" };

const formOf = (b: Standing): Form => ({ scope: b.scope, subject: b.subject, currency: b.currency, period: b.period || "none", limit: b.limit, soft: b.soft ?? "", action: b.action });

const actions: Record<string, string> = { stop: "stop, until something is left", pause: "pause, until a person resumes it", warn: "only warn" };

// BudgetDialog sets a new budget, or changes limit, soft limit and action of one.
export function BudgetDialog({ budget, onClose }: { budget?: Standing; onClose: () => void }) {
  const [f, setForm] = useState<Form>(() => (budget ? formOf(budget) : begin));
  const set = (change: Partial<Form>) => setForm((before) => ({ ...before, ...change }));
  const field = (name: keyof Form) => ({ className: "field", value: f[name], onChange: (e: { target: { value: string } }) => set({ [name]: e.target.value }) });
  const body = { currency: f.currency, limit: f.limit, ...(f.soft ? { soft: f.soft } : {}), period: f.period, action: f.action };
  const ready = isAmount(f.limit) && (f.soft === "" || isAmount(f.soft)) && f.subject.trim() !== "";
  const save = useMutation({
    mutationFn: () => need(api.PUT("/v1/budgets/{scope}/{subject}", { params: { path: { scope: f.scope, subject: f.subject.trim() } }, body } as never)),
    onSuccess: onClose,
    onSettled: () => queries.invalidateQueries({ queryKey: ["budgets"] }),
  });
  const cli = line("perdure", "budget", "set", f.scope, f.subject, "--limit", f.limit, "--currency", f.currency, ...(f.soft ? ["--soft", f.soft] : []), "--period", f.period, "--action", f.action);
  return (
    <FormDialog title={budget ? `Budget of ${subjectWords(budget)}` : "New budget"} act={save.isPending ? "Saving…" : "Save"} onClose={onClose} submit={() => save.mutate()} ready={ready} busy={save.isPending} error={save.error}>
      {!budget && (
        <>
          <div className="pair">
            <label>
              For
              <select {...field("scope")}>
                <option value="org">the org</option>
                <option value="agent">an agent</option>
                <option value="user">a user</option>
                <option value="session">a session</option>
              </select>
            </label>
            <label>
              {f.scope === "session" ? "Session id" : "Name"}
              <input {...field("subject")} spellCheck={false} autoComplete="off" />
            </label>
          </div>
          <div className="pair">
            <label>
              Currency
              <input {...field("currency")} list="currencies" spellCheck={false} autoComplete="off" />
              <datalist id="currencies">
                {["usd", "tokens", "calls", "model_calls", "seconds", "bytes"].map((c) => (
                  <option key={c} value={c} />
                ))}
              </datalist>
            </label>
            <label>
              Period
              <input {...field("period")} list="periods" spellCheck={false} autoComplete="off" />
              <datalist id="periods">
                {["none", "day", "week", "month", "year", "rolling 24h", "month Europe/Berlin"].map((p) => (
                  <option key={p} value={p} />
                ))}
              </datalist>
            </label>
          </div>
        </>
      )}
      <div className="pair">
        <label>
          Limit <span className="soft">({f.currency})</span>
          <input {...field("limit")} inputMode="decimal" autoComplete="off" aria-invalid={!isAmount(f.limit)} />
        </label>
        <label>
          Soft limit <span className="soft">(optional: pauses)</span>
          <input {...field("soft")} inputMode="decimal" autoComplete="off" />
        </label>
      </div>
      <label>
        At the limit, sessions
        <select {...field("action")}>
          {Object.entries(actions).map(([value, word]) => (
            <option key={value} value={value}>
              {word}
            </option>
          ))}
        </select>
      </label>
      {ready && <Affected budget={budget} scope={f.scope} subject={f.subject.trim()} change={f} />}
      <ActionLines cli={cli} curl={{ method: "PUT", path: `/v1/budgets/${f.scope}/${encodeURIComponent(f.subject)}`, body }} />
    </FormDialog>
  );
}

// RemoveBudget removes a budget with its ledger. Sessions that it stopped resume, which costs money.
export function RemoveBudget({ budget: b, onClose }: { budget: Standing; onClose: () => void }) {
  const remove = useMutation({
    mutationFn: () => need(api.DELETE("/v1/budgets/{budget}", { params: { path: { budget: b.id } } } as never)),
    onSuccess: onClose,
    onSettled: () => queries.invalidateQueries({ queryKey: ["budgets"] }),
  });
  return (
    <FormDialog title={`Remove the budget of ${subjectWords(b)}`} act={remove.isPending ? "Removing…" : "Remove"} onClose={onClose} submit={() => remove.mutate()} busy={remove.isPending} error={remove.error}>
      <p>
        The limit of {b.limit} {b.currency} and its ledger are removed for ever. Sessions that it stopped resume.
      </p>
      <ActionLines cli={line("perdure", "budget", "remove", b.id)} curl={{ method: "DELETE", path: `/v1/budgets/${b.id}` }} />
    </FormDialog>
  );
}
