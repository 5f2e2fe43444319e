import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { Heading } from "react-aria-components";
import { RequestFailed } from "../../client";
import { server } from "../app/api";
import { Icon } from "../app/icon";
import { ActionLines } from "../app/lines";
import { usePages } from "../app/pages";
import { Button, CopyLine, Failure } from "../app/pieces";
import { useMay } from "../principal/principal";
import { useKnown } from "./items";
import { cliOf, operationOf, requestOf, whole, type Document, type Entered, type Made } from "./operation";
import { send, type Answer } from "./send";
import { argsOf, terminal, ways, type Verb } from "./verbs";

// VerbForm asks for the arguments of a verb, runs it, and shows what the server answered.
export function VerbForm({ verb, onBack, onClose }: { verb: Verb; onBack: () => void; onClose: () => void }) {
  const way = ways[verb.verb];
  const doc = useQuery({ queryKey: ["openapi"], queryFn: readDocument, staleTime: Infinity, enabled: !!way });
  const op = way && doc.data ? operationOf(doc.data, way.op) : undefined;
  return (
    <div className="stack verb">
      <div className="row-of">
        <Button look="bare" onPress={onBack} aria-label="Back to the search">
          <Icon name="left" />
        </Button>
        <Heading slot="title" level={2}>
          <code>perdure {verb.verb}</code>
        </Heading>
      </div>
      <p>{verb.help}</p>
      {!way ? <AtTerminal verb={verb} onClose={onClose} /> : op ? <Form verb={verb} op={op} /> : doc.error ? <Failure error={doc.error} onRetry={() => void doc.refetch()} /> : <p role="status">Loading…</p>}
    </div>
  );
}

async function readDocument({ signal }: { signal: AbortSignal }): Promise<Document> {
  const answer = await fetch(new URL("openapi.json", server), { signal, credentials: "same-origin" }).catch((err: unknown) => {
    if (signal.aborted) throw err;
    throw new RequestFailed(0, {});
  });
  if (!answer.ok) throw new RequestFailed(answer.status, {});
  return (await answer.json()) as Document;
}

// AtTerminal says why a verb does not run on this page.
function AtTerminal({ verb, onClose }: { verb: Verb; onClose: () => void }) {
  const reason = terminal[verb.verb];
  const page = usePages().find((p) => p.to === reason?.page);
  return (
    <>
      <p className="soft">{reason?.why} Run it on a terminal:</p>
      <CopyLine text={cliOf(verb, { values: {}, query: {}, body: "" }, undefined)} />
      {page && (
        <p>
          <Link to={page.to as "/sessions"} onClick={onClose}>
            Or use the page {page.word}
          </Link>
        </p>
      )}
    </>
  );
}

type State = { busy?: boolean; answer?: Answer; error?: unknown };

function Form({ verb, op }: { verb: Verb; op: NonNullable<ReturnType<typeof operationOf>> }) {
  const way = ways[verb.verb]!;
  const { may, why } = useMay(op.scope);
  const known = useKnown();
  const [written, setEntered] = useState<Entered>(() => ({ values: {}, query: {}, body: op.body?.required && !way.body ? op.body.example : "" }));
  const [typed, setTyped] = useState("");
  const [state, setState] = useState<State>({});
  const args = argsOf(verb);
  const values = Object.fromEntries(Object.entries(written.values).map(([name, value]) => [name, whole(value, known(name))]));
  const entered = { ...written, values };
  const made: Made = requestOf(verb, op, entered);
  const ready = !("missing" in made);
  const first = entered.values[args[0]?.name ?? ""]?.trim() ?? "";
  const final = op.method === "DELETE"; // it cannot be undone
  const run = () => {
    if (!ready || state.busy || (final && typed.trim() !== first)) return;
    setState({ busy: true });
    send(made).then(
      (answer) => setState({ answer }),
      (error: unknown) => setState({ error }),
    );
  };
  return (
    <form
      className="stack"
      onSubmit={(e) => {
        e.preventDefault();
        run();
      }}
    >
      {args.map((arg, i) => (
        <label key={arg.name}>
          <span>
            {arg.name} {arg.optional && <span className="soft">(optional)</span>}
          </span>
          <input className="field mono" list={`known-${arg.name}`} value={written.values[arg.name] ?? ""} onChange={(e) => setEntered({ ...written, values: { ...written.values, [arg.name]: e.target.value } })} autoFocus={i === 0} spellCheck={false} autoComplete="off" />
          <datalist id={`known-${arg.name}`}>
            {known(arg.name)
              .slice(0, 50)
              .map((k) => (
                <option key={k.id} value={k.id} label={k.title} />
              ))}
          </datalist>
          <small className="soft">{arg.help}</small>
        </label>
      ))}
      {op.body && !way.body && (
        <label>
          <span>Body {!op.body.required && <span className="soft">(optional)</span>}</span>
          <textarea className="field mono" rows={Math.min(8, Math.max(2, entered.body.split("\n").length))} value={entered.body} placeholder={op.body.example} onChange={(e) => setEntered({ ...written, body: e.target.value })} spellCheck={false} />
        </label>
      )}
      {op.query.length > 0 && !way.query && (
        <details>
          <summary className="small soft">Options</summary>
          {op.query.map((q) => (
            <label key={q.name} className="small">
              {q.name}
              <input className="field mono" value={entered.query[q.name] ?? ""} onChange={(e) => setEntered({ ...written, query: { ...entered.query, [q.name]: e.target.value } })} spellCheck={false} autoComplete="off" />
              <small className="soft">{q.help}</small>
            </label>
          ))}
        </details>
      )}
      {!may ? (
        <p className="soft">{why}</p>
      ) : (
        <>
          {final && first && (
            <label>
              <span>This cannot be undone. Type <code>{first}</code> to confirm:</span>
              <input className="field mono" value={typed} onChange={(e) => setTyped(e.target.value)} spellCheck={false} autoComplete="off" />
            </label>
          )}
          <div className="row-of">
            <Button type="submit" look="first" isDisabled={!ready || state.busy || (final && typed.trim() !== first)}>
              {state.busy ? "Running…" : op.method === "GET" ? "Show" : final ? "Delete" : "Run"}
            </Button>
            <span className="soft small">{ready ? `${op.method} ${made.path}` : `needs: ${made.missing}`}</span>
          </div>
        </>
      )}
      {state.error ? <Failure error={state.error} /> : null}
      {state.answer && <Result answer={state.answer} />}
      {ready ? <ActionLines cli={cliOf(verb, entered, made)} curl={made} open={!state.answer} /> : <CopyLine text={cliOf(verb, entered, undefined)} />}
    </form>
  );
}

function Result({ answer }: { answer: Answer }) {
  return (
    <section aria-label="Answer" role="status">
      <p className="small soft">
        {answer.status} · {answer.ms} ms{answer.cut ? " · the beginning" : ""}
      </p>
      <pre className="code" tabIndex={0} aria-label="Answer of the server">
        {answer.text || "done"}
      </pre>
    </section>
  );
}
