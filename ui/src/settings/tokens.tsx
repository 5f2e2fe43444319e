import { serverNow } from "../app/clock";
import { useState } from "react";
import { need, type Schemas } from "../../client";
import { api, queries } from "../app/api";
import { useNow } from "../app/hooks";
import type { Look } from "../app/icon";
import { Button, Failure } from "../app/pieces";
import { usePages } from "../list/read";
import { type Scope, usePrincipal } from "../principal/principal";
import { age, oneLine, plural } from "../text/text";
import { useAct } from "./act";
import { command } from "./command";
import { Ask, Cli, Once, Window } from "./dialog";
import { Head, Lines, Loaded, More } from "./pieces";

type Token = Schemas["Token"];

const looks: Record<string, Look> = {
  live: { icon: "check", word: "Live", tone: "good" },
  expired: { icon: "clock", word: "Expired", tone: "soft" },
  revoked: { icon: "cross", word: "Revoked", tone: "soft" },
};

const reread = () => queries.invalidateQueries({ queryKey: ["tokens"] });

// Tokens lists the tokens of this server.
export function Tokens() {
  const now = useNow(5000);
  const me = usePrincipal();
  const [open, setOpen] = useState<"create" | Token | undefined>();
  const [made, setMade] = useState<{ name: string; secret: string }>();
  const read = usePages<Token>(["tokens"], (at, signal) => need(api.GET("/v1/tokens", { signal, params: { query: at } })));
  const close = () => setOpen(undefined);
  const line = (t: Token) =>
    [t.scopes.join(", "), t.org !== "default" && `org ${oneLine(t.org, 40)}`, t.user && `user ${oneLine(t.user, 40)}`, t.agent && "for an agent", t.last_used_at ? `used ${age(t.last_used_at, now)}` : "never used", t.expires_at && `expires ${new Date(t.expires_at).toLocaleDateString()}`]
      .filter(Boolean)
      .join(" · ");
  return (
    <>
      <Head title="Tokens" about="A token is a name, scopes, and a secret that is shown once. Revoking one ends its running requests within a second.">
        <Button look="first" onPress={() => setOpen("create")}>
          Create a token
        </Button>
      </Head>
      <Loaded read={{ ...read, data: read.rows }}>
        {(all) => (
          <Lines
            label={plural(all.length, "token")}
            empty="There is no token but that of the data directory."
            lines={all.toReversed().map((t) => ({
              id: t.id,
              look: looks[t.state] ?? { icon: "dot", word: t.state, tone: "soft" },
              title: `${oneLine(t.name, 80)}${t.id === me.data?.id ? " (this browser)" : ""}`,
              detail: line(t),
              aside: t.state === "live" && (
                <Button onPress={() => setOpen(t)} aria-label={`Revoke ${oneLine(t.name, 60)}…`}>
                  Revoke…
                </Button>
              ),
            }))}
          />
        )}
      </Loaded>
      <More read={read} />
      {open === "create" && <Create scopes={(me.data?.scopes ?? []) as Scope[]} onClose={close} onMade={(name, secret) => (close(), setMade({ name, secret }))} />}
      {made && (
        <Once title={`Token ${oneLine(made.name, 60)}`} secret={made.secret} onClose={() => setMade(undefined)}>
          This secret is shown now and never again. Whoever has it can do what its scopes allow.
        </Once>
      )}
      {typeof open === "object" && (
        <Ask
          title={`Revoke the token ${oneLine(open.name, 60)}?`}
          action="Revoke"
          word={open.name}
          cli={command("perdure", "token", "revoke", open.id)}
          curl={{ method: "DELETE", path: `/v1/tokens/${open.id}` }}
          run={async () => {
            await need(api.DELETE("/v1/tokens/{token}", { params: { path: { token: open.id } } } as never));
            void reread();
          }}
          onClose={close}
        >
          <p>{open.id === me.data?.id ? "This browser is signed in with it: revoking it signs you out." : "Programs that use it are refused from then on, and their open streams end."}</p>
        </Ask>
      )}
    </>
  );
}

const scopeWords: Record<Scope, string> = {
  read: "see everything of the org",
  write: "start, send, stop and delete",
  approve: "decide approvals, resolve unknown outcomes",
  admin: "tokens, providers, webhooks, budgets, the audit log",
};

const lifetimes = [
  { word: "never", flag: "", ms: 0 },
  { word: "in 12 hours", flag: "12h", ms: 43_200_000 },
  { word: "in 30 days", flag: "30d", ms: 30 * 86_400_000 },
  { word: "in 90 days", flag: "90d", ms: 90 * 86_400_000 },
];

// Create creates a token. The answer has the secret, so it goes to onMade and into no cache.
function Create({ scopes, onClose, onMade }: { scopes: Scope[]; onClose: () => void; onMade: (name: string, secret: string) => void }) {
  const [name, setName] = useState("");
  const [chosen, setChosen] = useState<Scope[]>(scopes.filter((s) => s === "read" || s === "write"));
  const [agent, setAgent] = useState(false);
  const [life, setLife] = useState(0);
  const ends = lifetimes[life]!;
  const create = useAct(
    () =>
      need<Schemas["IssuedToken"]>(
        api.POST("/v1/tokens", { body: { name: name.trim(), scopes: chosen, ...(agent ? { agent } : {}), ...(ends.ms ? { expires_at: new Date(serverNow() + ends.ms).toISOString() } : {}) } } as never),
      ),
    (t) => {
      void reread();
      onMade(t.name, t.token);
    },
  );
  return (
    <Window title="Create a token" onClose={onClose}>
      <form
        className="stack"
        onSubmit={(e) => {
          e.preventDefault();
          create.run();
        }}
      >
        <label>
          Name, for people
          <input className="field" value={name} onChange={(e) => setName(e.target.value)} autoFocus autoComplete="off" />
        </label>
        <fieldset className="checks">
          <legend>Scopes</legend>
          {scopes.map((s) => (
            <label key={s} className="check">
              <input type="checkbox" checked={chosen.includes(s)} onChange={(e) => setChosen(e.target.checked ? scopes.filter((x) => x === s || chosen.includes(x)) : chosen.filter((x) => x !== s))} />
              <span>
                {s} <span className="soft small">{scopeWords[s]}</span>
              </span>
            </label>
          ))}
        </fieldset>
        <label className="check">
          <input type="checkbox" checked={agent} onChange={(e) => setAgent(e.target.checked)} />
          <span>
            For an agent <span className="soft small">it can neither approve nor resolve</span>
          </span>
        </label>
        <label>
          Expires
          <select className="field" value={life} onChange={(e) => setLife(Number(e.target.value))}>
            {lifetimes.map((l, i) => (
              <option key={l.word} value={i}>
                {l.word}
              </option>
            ))}
          </select>
        </label>
        {create.error ? <Failure error={create.error} /> : null}
        <div className="row-of">
          <Button type="submit" look="first" isDisabled={create.pending || name.trim() === "" || chosen.length === 0}>
            {create.pending ? "Creating…" : "Create"}
          </Button>
          <Button onPress={onClose}>Cancel</Button>
        </div>
        <Cli text={command("perdure", "token", "create", name.trim() || "NAME", ...chosen.flatMap((s) => ["--scope", s]), agent && "--agent", ...(ends.flag ? ["--expires", ends.flag] : []))} curl={{ method: "POST", path: "/v1/tokens", body: { name: name.trim() || "NAME", scopes: chosen, ...(agent ? { agent } : {}) } }} />
      </form>
    </Window>
  );
}
