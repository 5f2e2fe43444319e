import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { need, type Schemas } from "../../client";
import { api, queries } from "../app/api";
import { useNow } from "../app/hooks";
import type { Look } from "../app/icon";
import { Button, Failure } from "../app/pieces";
import { usePages } from "../list/read";
import { age, oneLine, plural, safe } from "../text/text";
import { useAct } from "./act";
import { command } from "./command";
import { Cli, Window } from "./dialog";
import { useItem } from "./pages";
import { Facts, Head, Lines, Loaded, Missing, More, Scoped, Split } from "./pieces";

type Payment = Schemas["Payment"];

const looks: Record<string, Look> = {
  in_flight: { icon: "ring", word: "In flight", tone: "live" },
  paid: { icon: "check", word: "Paid", tone: "good" },
  refused: { icon: "cross", word: "Refused", tone: "soft" },
  unknown: { icon: "ask", word: "Unknown", tone: "odd" },
};
const look = (p: Payment): Look => looks[p.state] ?? { icon: "dot", word: oneLine(p.state, 30), tone: "soft" };
const amount = (p: Payment) => `${oneLine(p.amount, 40)} ${oneLine(p.currency, 20)}`;

// Payments lists what tools paid, the newest first, those whose outcome is unknown before all.
export function Payments() {
  const { item } = useItem();
  const now = useNow(5000);
  const read = usePages<Payment>(["payments"], (at, signal) => need(api.GET("/v1/payments", { signal, params: { query: at } })), { every: 5000 });
  const unknown = usePages<Payment>(["payments", "unknown"], (at, signal) => need(api.GET("/v1/payments", { signal, params: { query: { ...at, state: "unknown" } } })), { every: 5000 });
  const rows = read.rows && [...(unknown.rows ?? []), ...read.rows.filter((p) => p.state !== "unknown")];
  const chosen = rows?.find((p) => p.id === item);
  return (
    <>
      <Head title="Payments" about="What tools paid. After a crash between sending and answer, the outcome is unknown: nothing is paid again until a person has looked at the wallet." />
      <Loaded read={{ ...read, data: rows }}>
        {(all) => (
          <Split
            section="payments"
            noun="payment"
            list={
              <Lines
                section="payments"
                chosen={item}
                label={plural(all.length, "payment")}
                empty="No tool has paid."
                lines={all.map((p) => ({ id: p.id, item: p.id, look: look(p), title: `${amount(p)} to ${oneLine(p.host, 80)}`, detail: `${oneLine(p.tool, 60)} · ${age(p.created_at, now)}` }))}
              />
            }
            detail={chosen ? <PaymentDetail key={chosen.id} of={chosen} /> : item !== undefined ? <Missing noun="payment" id={item} section="payments" /> : undefined}
          />
        )}
      </Loaded>
      <More read={read} />
    </>
  );
}

function PaymentDetail({ of }: { of: Payment }) {
  const [resolving, setResolving] = useState(false);
  return (
    <>
      <h2>
        {amount(of)} to {safe(of.host)}
      </h2>
      <Facts
        facts={[
          ["State", look(of).word],
          ["Tool", oneLine(of.tool, 80)],
          ["Operation", oneLine(of.operation, 80)],
          [
            "Session",
            of.session_id && (
              <Link key="l" to="/sessions/$id" params={{ id: of.session_id }}>
                {of.session_id}
              </Link>
            ),
          ],
          ["Created", new Date(of.created_at).toLocaleString()],
          ["Settled", of.settled_at && new Date(of.settled_at).toLocaleString()],
          ["Approved by", of.approved_by && safe(of.approved_by)],
          ["Resolved by", of.resolved_by && safe(of.resolved_by)],
          ["Receipt", of.receipt && <span className="untrusted">{safe(of.receipt)}</span>],
          ["Note", of.note && <span className="untrusted">{safe(of.note)}</span>],
          ["Idempotency key", <code key="id">{of.id}</code>],
        ]}
      />
      {of.state === "unknown" && (
        <Scoped scope="approve">
          <div>
            <Button look="first" onPress={() => setResolving(true)}>
              Resolve…
            </Button>
          </div>
        </Scoped>
      )}
      <Cli text={command("perdure", "payment", "show", of.id)} />
      {resolving && <Resolve of={of} onClose={() => setResolving(false)} />}
    </>
  );
}

function Resolve({ of, onClose }: { of: Payment; onClose: () => void }) {
  const [outcome, setOutcome] = useState("");
  const [receipt, setReceipt] = useState("");
  const [note, setNote] = useState("");
  const paid = outcome === "happened";
  const resolve = useAct(
    () =>
      need(
        api.POST("/v1/payments/{payment}/resolve", {
          params: { path: { payment: of.id } },
          body: { outcome, ...(paid && receipt.trim() ? { receipt: receipt.trim() } : {}), ...(note.trim() ? { note: note.trim() } : {}) },
        } as never),
      ),
    () => {
      void queries.invalidateQueries({ queryKey: ["payments"] });
      onClose();
    },
  );
  return (
    <Window title={`Was ${amount(of)} paid?`} onClose={onClose}>
      <form
        className="stack"
        onSubmit={(e) => {
          e.preventDefault();
          resolve.run();
        }}
      >
        <p>
          Look for the key <code className="untrusted">{of.id}</code> in the records of the wallet. No money moves here, and the answer cannot be changed.
        </p>
        <fieldset className="checks">
          <legend>The records show</legend>
          {[
            ["happened", "The payment happened"],
            ["did_not_happen", "The payment did not happen"],
          ].map(([value, word]) => (
            <label key={value} className="check">
              <input type="radio" name="outcome" checked={outcome === value} onChange={() => setOutcome(value!)} /> {word}
            </label>
          ))}
        </fieldset>
        {paid && (
          <label>
            Receipt
            <input className="field" value={receipt} onChange={(e) => setReceipt(e.target.value)} />
          </label>
        )}
        <label>
          Note <span className="soft">(optional)</span>
          <input className="field" value={note} onChange={(e) => setNote(e.target.value)} />
        </label>
        {resolve.error ? <Failure error={resolve.error} /> : null}
        <div className="row-of">
          <Button type="submit" look="first" isDisabled={resolve.pending || !outcome}>
            {resolve.pending ? "Recording…" : "Record"}
          </Button>
          <Button onPress={onClose}>Cancel</Button>
        </div>
        <Cli text={command("perdure", "payment", "resolve", of.id, paid ? "--happened" : outcome ? "--did-not-happen" : false, ...(note.trim() ? ["--note", note.trim()] : []))} curl={{ method: "POST", path: `/v1/payments/${of.id}/resolve`, body: { outcome: outcome || "happened", ...(note.trim() ? { note: note.trim() } : {}) } }} />
      </form>
    </Window>
  );
}
