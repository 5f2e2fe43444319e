import { useEffect, useRef, useState } from "react";
import { need, type Schemas } from "../../client";
import { api, queries } from "../app/api";
import { Button, Failure } from "../app/pieces";
import { useAct } from "./act";
import { command } from "./command";
import { Cli, Window } from "./dialog";

type Connection = Schemas["Connection"];

export const reread = () => queries.invalidateQueries({ queryKey: ["connections"] });

// Authorize begins an OAuth authorization. The service sends the browser back to the server, and the
// list shows the account then. onConnected is called once, when it does.
export function Authorize({ known, provider = "", onConnected, onClose }: { known: Connection[]; provider?: string; onConnected?: () => void; onClose: () => void }) {
  const [name, setName] = useState(provider);
  const [before] = useState(() => new Map(known.map((c) => [c.name, c.updated_at])));
  const id = name.trim();
  const flow = useAct(() => need<Schemas["ConnectionFlow"]>(api.POST("/v1/connections/{connection}/authorize", { params: { path: { connection: id } }, body: {} } as never)));
  const done = flow.result && known.some((c) => c.name === id && before.get(id) !== c.updated_at);
  const told = useRef(false);
  useEffect(() => {
    if (!done || told.current) return;
    told.current = true;
    onConnected?.();
  }, [done, onConnected]);
  const safeURL = flow.result && /^https?:\/\//.test(flow.result.url) ? flow.result.url : undefined;
  return (
    <Window title="Connect an account" onClose={onClose}>
      <form
        className="stack"
        onSubmit={(e) => {
          e.preventDefault();
          flow.run();
        }}
      >
        <label>
          Service, as in oauth.json of the data directory
          <input className="field" value={name} onChange={(e) => setName(e.target.value)} placeholder="github" autoFocus autoComplete="off" spellCheck={false} />
        </label>
        {flow.error ? <Failure error={flow.error} /> : null}
        {done ? (
          <p role="status" className="tone-good">
            Connected.
          </p>
        ) : safeURL ? (
          <p role="status">
            <a href={safeURL} target="_blank" rel="noopener noreferrer">
              Continue at the service
            </a>
            <span className="soft small"> in a new tab, within ten minutes. This page sees when you are done.</span>
          </p>
        ) : null}
        <div className="row-of">
          {!done && (
            <Button type="submit" look="first" isDisabled={flow.pending || id === ""}>
              {flow.pending ? "Asking…" : flow.result ? "Begin again" : "Begin"}
            </Button>
          )}
          <Button onPress={onClose}>{done ? "Close" : "Cancel"}</Button>
        </div>
        <Cli text={command("perdure", "connection", "add", id || "SERVICE")} curl={{ method: "POST", path: `/v1/connections/${id || "SERVICE"}/authorize`, body: {} }} />
      </form>
    </Window>
  );
}

// WithToken stores the token of an account. It is in this component only, until it is sent.
export function WithToken({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [token, setToken] = useState("");
  const [hosts, setHosts] = useState("");
  const chosen = hosts.split(/[\s,]+/).filter(Boolean);
  const id = name.trim();
  const store = useAct(
    () => need(api.PUT("/v1/connections/{connection}", { params: { path: { connection: id } }, body: { token: token.trim(), ...(chosen.length ? { hosts: chosen } : {}) } } as never)),
    () => (void reread(), onClose()),
  );
  return (
    <Window title="Connect an account with a token" onClose={onClose}>
      <form
        className="stack"
        onSubmit={(e) => {
          e.preventDefault();
          store.run();
        }}
      >
        <label>
          Service
          <input className="field" value={name} onChange={(e) => setName(e.target.value)} placeholder="gitlab" autoFocus autoComplete="off" spellCheck={false} />
        </label>
        <label>
          Token <span className="soft">(never shown again)</span>
          <input className="field" type="password" value={token} onChange={(e) => setToken(e.target.value)} autoComplete="off" />
        </label>
        <label>
          Hosts to which requests of tools may carry it
          <input className="field" value={hosts} onChange={(e) => setHosts(e.target.value)} placeholder="gitlab.com" autoComplete="off" spellCheck={false} />
        </label>
        {store.error ? <Failure error={store.error} /> : null}
        <div className="row-of">
          <Button type="submit" look="first" isDisabled={store.pending || id === "" || token.trim() === ""}>
            {store.pending ? "Storing…" : "Store"}
          </Button>
          <Button onPress={onClose}>Cancel</Button>
        </div>
        <Cli text={command("perdure", "connection", "add", id || "SERVICE", "--token", ...chosen.flatMap((h) => ["--host", h]))} curl={{ method: "PUT", path: `/v1/connections/${id || "SERVICE"}`, body: { token: "TOKEN", ...(chosen.length ? { hosts: chosen } : {}) } }} />
      </form>
    </Window>
  );
}
