import type { UseMutationResult } from "@tanstack/react-query";
import { useState } from "react";
import { useKeys } from "../app/keys";
import { ActionLines } from "../app/lines";
import { Button, Failure } from "../app/pieces";
import type { Approval } from "../event/types";
import { useMay } from "../principal/principal";
import { line } from "../text/shell";
import { plural, safe } from "../text/text";
import { irreversible } from "./order";
import type { Outcome, Verdict } from "./send";

type Step = "ask" | "type" | "deny";

type Props = { approval: Approval; ready: boolean; equal: readonly Approval[]; keys: boolean; act: UseMutationResult<Outcome, Error, Verdict> };

// Decide takes the decision about a question, or about all that are byte-equal. A call that must not
// happen twice is approved by typing the name of its tool, never with one key.
export function Decide({ approval, ready, equal, keys, act }: Props) {
  const { may, why } = useMay("approve");
  const [step, setStep] = useState<Step>("ask");
  const [all, setAll] = useState(false);
  const idle = ready && !act.isPending && !act.isSuccess;
  const of = (every: boolean) => (every ? [approval, ...equal] : [approval]);
  const approve = (every: boolean) => {
    if (!idle) return;
    setAll(every);
    if (irreversible(approval)) setStep("type");
    else act.mutate({ verdict: "approve", note: "", all: of(every) });
  };
  const deny = () => {
    if (act.isPending || act.isSuccess) return;
    setAll(false);
    setStep("deny");
  };
  useKeys("This question", !keys || !may || step !== "ask" ? {} : {
    a: { about: irreversible(approval) ? "Approve, by typing the name of the tool" : "Approve once", run: () => approve(false) },
    d: { about: "Deny with a note", run: deny },
    ...(equal.length > 0 ? { r: { about: `Approve all ${equal.length + 1} equal ones`, run: () => approve(true) } } : {}),
  });
  if (!may) return <p className="small">{why}</p>;
  const send = (verdict: Verdict["verdict"], note: string) => act.mutate({ verdict, note, all: of(all) });
  return (
    <div className="decide">
      {act.error && <Failure error={act.error} />}
      {step === "type" ? (
        <Typed approval={approval} count={of(all).length} busy={!idle} onSend={() => send("approve", "")} onBack={() => setStep("ask")} />
      ) : step === "deny" ? (
        <Deny count={of(all).length} more={equal.length} all={all} setAll={setAll} busy={act.isPending || act.isSuccess} onSend={(note) => send("deny", note)} onBack={() => setStep("ask")} />
      ) : (
        <>
          <div className="row-of">
            <Button look="first" isDisabled={!idle} onPress={() => approve(false)}>
              {irreversible(approval) ? "Approve once…" : "Approve once"}
            </Button>
            {equal.length > 0 && (
              <Button isDisabled={!idle} onPress={() => approve(true)}>
                Approve all {equal.length + 1} equal ones{irreversible(approval) ? "…" : ""}
              </Button>
            )}
            <Button isDisabled={act.isPending || act.isSuccess} onPress={deny}>
              Deny…
            </Button>
            {act.isPending && (
              <span className="soft small" role="status">
                Sending…
              </span>
            )}
          </div>
          <p className="soft small">{consequences(approval, equal.length)}</p>
          <ActionLines cli={line("perdure", "approve", approval.id)} curl={{ method: "POST", path: `/v1/approvals/${approval.id}/approve`, body: { args_digest: approval.args_digest } }} />
        </>
      )}
    </div>
  );
}

function consequences(a: Approval, equal: number): string {
  const approved = a.task_id ? "If you approve, the task is queued and runs once with exactly these arguments." : "If you approve, the call runs once with exactly these arguments.";
  const denied = a.task_id ? "If you deny, the task ends as failed, and the model reads your note." : "If you deny, the model reads your note instead of a result, and the turn continues.";
  return `${approved} ${denied}${equal > 0 ? ` ${plural(equal, "other question")} asked for the same: tool, arguments and permissions are equal byte for byte.`.replace("questions asked", "questions ask").replace("question asked", "question asks") : ""}`;
}

function Typed({ approval, count, busy, onSend, onBack }: { approval: Approval; count: number; busy: boolean; onSend: () => void; onBack: () => void }) {
  const [word, setWord] = useState("");
  const right = word.trim() === approval.tool;
  return (
    <form
      className="stack-2"
      onSubmit={(e) => {
        e.preventDefault();
        if (right && !busy) onSend();
      }}
      onKeyDown={(e) => e.key === "Escape" && onBack()}
    >
      <label className="small">
        This must not happen twice, and cannot be taken back{count > 1 ? `. It will happen ${count} times` : ""}. To approve, type the name of the tool: <strong className="mono">{safe(approval.tool)}</strong>
        <input className="field" value={word} onChange={(e) => setWord(e.target.value)} autoFocus autoComplete="off" autoCapitalize="off" spellCheck={false} />
      </label>
      <div className="row-of">
        <Button type="submit" look="first" isDisabled={!right || busy}>
          {count > 1 ? `Approve ${count}` : "Approve once"}
        </Button>
        <Button onPress={onBack}>Back</Button>
      </div>
    </form>
  );
}

type DenyProps = { count: number; more: number; all: boolean; setAll: (all: boolean) => void; busy: boolean; onSend: (note: string) => void; onBack: () => void };

function Deny({ count, more, all, setAll, busy, onSend, onBack }: DenyProps) {
  const [note, setNote] = useState("");
  return (
    <form
      className="stack-2"
      onSubmit={(e) => {
        e.preventDefault();
        if (!busy) onSend(note.trim());
      }}
      onKeyDown={(e) => e.key === "Escape" && onBack()}
    >
      <label className="small">
        What the model reads instead of a result (optional)
        <input className="field" placeholder="Why not?" value={note} onChange={(e) => setNote(e.target.value)} autoFocus />
      </label>
      {more > 0 && (
        <label className="small row-of">
          <input type="checkbox" checked={all} onChange={(e) => setAll(e.target.checked)} /> Also deny {plural(more, "equal question")}
        </label>
      )}
      <div className="row-of">
        <Button type="submit" look="first" isDisabled={busy}>
          {count > 1 ? `Deny ${count}` : "Deny"}
        </Button>
        <Button onPress={onBack}>Back</Button>
      </div>
    </form>
  );
}
