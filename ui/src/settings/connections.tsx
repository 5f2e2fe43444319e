import { useState } from "react";
import { need, type Schemas } from "../../client";
import { api, queries } from "../app/api";
import { useNow } from "../app/hooks";
import { Button, Failure } from "../app/pieces";
import { useMay } from "../principal/principal";
import { age, duration, oneLine, plural, safe } from "../text/text";
import { useAct } from "./act";
import { command } from "./command";
import { Ask, Cli, Window } from "./dialog";
import { connectionLook, TestConnection, useConnections } from "./mcp";
import { useItem } from "./pages";
import { Facts, Head, Lines, Loaded, Missing, Scoped, Split } from "./pieces";

type Connection = Schemas["Connection"];

const reread = () => queries.invalidateQueries({ queryKey: ["connections"] });

// Connections lists the caller's accounts at other services.
export function Connections() {
  const { item } = useItem();
  const { may, why } = useMay("write");
  const [open, setOpen] = useState<"" | "oauth" | "token">("");
  const read = useConnections(open === "oauth" ? 2000 : undefined);
  const accounts = read.rows?.filter((c) => c.kind === "account");
  const chosen = accounts?.find((c) => c.name === item);
  return (
    <>
      <Head title="Connections" about="Your accounts at other services. Calls that wait for a connection continue when it is there. A token is stored encrypted and never shown.">
        {may ? (
          <>
            <Button look="first" onPress={() => setOpen("oauth")}>
              Connect an account
            </Button>
            <Button onPress={() => setOpen("token")}>With a token</Button>
          </>
        ) : (
          <span className="soft small">{why}</span>
        )}
      </Head>
      <Loaded read={{ ...read, data: accounts }}>
        {(all) => (
          <Split
            section="connections"
            noun="account"
            list={
              <Lines
                section="connections"
                chosen={item}
                label={plural(all.length, "account")}
                empty="You have connected no account."
                lines={all.map((c) => ({
                  id: c.name,
                  item: c.name,
                  look: connectionLook(c),
                  title: oneLine(c.name, 80),
                  detail: [c.oauth ? "OAuth" : "a token", c.user && `user ${oneLine(c.user, 40)}`, c.hosts?.length ? `for ${oneLine(c.hosts.join(", "), 120)}` : ""].filter(Boolean).join(" · "),
                }))}
              />
            }
            detail={chosen ? <Account key={chosen.name} of={chosen} /> : item !== undefined ? <Missing noun="account" id={item} section="connections" /> : undefined}
          />
        )}
      </Loaded>
      {open === "oauth" && <Authorize known={accounts ?? []} onClose={() => setOpen("")} />}
      {open === "token" && <WithToken onClose={() => setOpen("")} />}
    </>
  );
}

function Account({ of }: { of: Connection }) {
  const now = useNow(5000);
  const { choose } = useItem();
  const [asking, setAsking] = useState(false);
  return (
    <>
      <h2>{safe(of.name)}</h2>
      <Facts
        facts={[
          ["State", connectionLook(of).word],
          ["Scopes", of.scopes?.length ? oneLine(of.scopes.join(" "), 300) : ""],
          ["May be sent to", of.hosts?.length ? oneLine(of.hosts.join(", "), 300) : "no host by itself"],
          ["Expires", of.expires_at && (Date.parse(of.expires_at) > now ? `in ${duration(Date.parse(of.expires_at) - now)}` : age(of.expires_at, now))],
          ["Connected", of.created_at && age(of.created_at, now)],
          ["Last error", of.last_error && <span className="untrusted">{safe(of.last_error)}</span>],
        ]}
      />
      <TestConnection name={of.name} verb="Test" />
      <Scoped scope="write">
        <div>
          <Button onPress={() => setAsking(true)}>Disconnect…</Button>
        </div>
      </Scoped>
      {asking && (
        <Ask
          title={`Disconnect ${oneLine(of.name, 60)}?`}
          action="Disconnect"
          word={of.name}
          cli={command("perdure", "connection", "delete", of.name)}
          curl={{ method: "DELETE", path: `/v1/connections/${of.name}` }}
          run={async () => {
            await need(api.DELETE("/v1/connections/{connection}", { params: { path: { connection: of.name } } } as never));
            choose({ item: undefined });
            void reread();
          }}
          onClose={() => setAsking(false)}
        >
          <p>The token is removed here. It stays valid at the service until it is revoked there.</p>
        </Ask>
      )}
    </>
  );
}

// Authorize begins an OAuth authorization. The service sends the browser back to the server, and the
// list shows the account then.
function Authorize({ known, onClose }: { known: Connection[]; onClose: () => void }) {
  const [name, setName] = useState("");
  const [before] = useState(() => new Map(known.map((c) => [c.name, c.updated_at])));
  const id = name.trim();
  const flow = useAct(() => need<Schemas["ConnectionFlow"]>(api.POST("/v1/connections/{connection}/authorize", { params: { path: { connection: id } }, body: {} } as never)));
  const done = flow.result && known.some((c) => c.name === id && before.get(id) !== c.updated_at);
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
function WithToken({ onClose }: { onClose: () => void }) {
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
