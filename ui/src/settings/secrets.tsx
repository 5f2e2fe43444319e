import { useState } from "react";
import { need, type Schemas } from "../../client";
import { api, queries } from "../app/api";
import { useNow } from "../app/hooks";
import { Button, Failure } from "../app/pieces";
import { usePages } from "../list/read";
import { useMay } from "../principal/principal";
import { age, oneLine, plural, safe } from "../text/text";
import { useAct } from "./act";
import { command } from "./command";
import { Ask, Cli, Window } from "./dialog";
import { useItem } from "./pages";
import { Head, isMissing, Lines, Loaded, More } from "./pieces";

type Secret = Schemas["Secret"];

// Secrets lists the names of a session's secrets. No request returns a value.
export function Secrets() {
  const { session, choose } = useItem();
  const sessions = usePages<Schemas["Session"]>(["secrets-sessions"], (at, signal) => need(api.GET("/v1/sessions", { signal, params: { query: at } })));
  const [typed, setTyped] = useState("");
  const listed = sessions.rows?.some((s) => s.id === session);
  return (
    <>
      <Head title="Secrets" about="A secret belongs to a session. It is stored encrypted; tools use it, and nobody can read it again." />
      <Loaded read={{ ...sessions, data: sessions.rows }}>
        {(all) => (
          <div className="row-of">
            <label className="grow">
              Session
              <select className="field" value={session ?? ""} onChange={(e) => choose({ session: e.target.value || undefined })}>
                <option value="">{all.length === 0 ? "There is no session" : "Choose a session"}</option>
                {session && !listed && <option value={session}>{oneLine(session, 60)}</option>}
                {all.map((s) => (
                  <option key={s.id} value={s.id}>
                    {oneLine(s.title || "Untitled", 60)} · {s.id.slice(-8)}
                  </option>
                ))}
              </select>
            </label>
            {sessions.hasNextPage && (
              <form
                className="row-of"
                onSubmit={(e) => {
                  e.preventDefault();
                  choose({ session: typed.trim() });
                }}
              >
                <input className="field" aria-label="Id of an older session" placeholder="Or the id of an older one" value={typed} onChange={(e) => setTyped(e.target.value)} />
              </form>
            )}
          </div>
        )}
      </Loaded>
      {session && <OfSession key={session} session={session} />}
    </>
  );
}

function OfSession({ session }: { session: string }) {
  const now = useNow(5000);
  const write = useMay("write");
  const admin = useMay("admin");
  const [open, setOpen] = useState<{ act: "set" | "delete"; name: string }>();
  const key = ["secrets", session];
  const read = usePages<Secret>(key, (at, signal) => need(api.GET("/v1/sessions/{id}/secrets", { signal, params: { path: { id: session }, query: at } })));
  // The audit log names the tool that read a secret.
  const uses = usePages<Schemas["AuditEntry"]>(
    ["secret-uses", session],
    (at, signal) => need(api.GET("/v1/audit", { signal, params: { query: { ...at, action: "secret.read", session, order: "newest" } } })),
    { enabled: admin.may },
  );
  const use = (name: string) => {
    const last = uses.rows?.find((e) => e.subject === name);
    return last ? `last read by ${oneLine(last.actor, 60)} ${age(last.at, now)}` : uses.rows && !uses.hasNextPage ? "never read" : "";
  };
  const reread = () => queries.invalidateQueries({ queryKey: key });
  const close = () => setOpen(undefined);
  if (isMissing(read.error)) {
    return (
      <div className="notice">
        <p>
          There is no such session: <code className="untrusted">{safe(session)}</code>
        </p>
      </div>
    );
  }
  return (
    <>
      <div className="row-of">
        <h2 className="grow">Secrets of this session</h2>
        {write.may ? (
          <Button look="first" onPress={() => setOpen({ act: "set", name: "" })}>
            Set a secret
          </Button>
        ) : (
          <span className="soft small">{write.why}</span>
        )}
      </div>
      <Loaded read={{ ...read, data: read.rows }}>
        {(all) => (
          <Lines
            label={plural(all.length, "secret")}
            empty="This session has no secret."
            lines={all.map((s) => ({
              id: s.name,
              title: <code>{oneLine(s.name, 100)}</code>,
              detail: [s.hosts?.length ? `may be sent to ${oneLine(s.hosts.join(", "), 160)}` : "only in the environment of commands", `version ${s.version}`, `set ${age(s.updated_at, now)}`, use(s.name)].filter(Boolean).join(" · "),
              aside: write.may && (
                <>
                  <Button onPress={() => setOpen({ act: "set", name: s.name })} aria-label={`Replace ${oneLine(s.name, 60)}…`}>
                    Replace…
                  </Button>
                  <Button onPress={() => setOpen({ act: "delete", name: s.name })} aria-label={`Delete ${oneLine(s.name, 60)}…`}>
                    Delete…
                  </Button>
                </>
              ),
            }))}
          />
        )}
      </Loaded>
      <More read={read} />
      {open?.act === "set" && <SecretForm session={session} of={read.rows?.find((s) => s.name === open.name)} onClose={close} onDone={reread} />}
      {open?.act === "delete" && (
        <Ask
          title="Delete this secret?"
          action="Delete"
          word={open.name}
          cli={command("perdure", "secret", "delete", session, open.name)}
          curl={{ method: "DELETE", path: `/v1/sessions/${session}/secrets/${open.name}` }}
          run={async () => {
            await need(api.DELETE("/v1/sessions/{id}/secrets/{name}", { params: { path: { id: session, name: open.name } } } as never));
            void reread();
          }}
          onClose={close}
        >
          <p>Tools that use it fail from then on.</p>
        </Ask>
      )}
    </>
  );
}

// SecretForm sets a secret. The value is in this component only, until it is sent.
function SecretForm({ session, of, onClose, onDone }: { session: string; of?: Secret | undefined; onClose: () => void; onDone: () => void }) {
  const [name, setName] = useState(of?.name ?? "");
  const [hosts, setHosts] = useState(of?.hosts?.join(" ") ?? "");
  const [value, setValue] = useState("");
  const id = name.trim();
  const chosen = hosts.split(/[\s,]+/).filter(Boolean);
  const set = useAct(
    () => need(api.PUT("/v1/sessions/{id}/secrets/{name}", { params: { path: { id: session, name: id } }, body: { value, ...(chosen.length ? { hosts: chosen } : {}) } } as never)),
    () => (onDone(), onClose()),
  );
  return (
    <Window title={of ? `Replace the secret ${oneLine(of.name, 60)}` : "Set a secret"} onClose={onClose}>
      <form
        className="stack"
        onSubmit={(e) => {
          e.preventDefault();
          set.run();
        }}
      >
        {!of && (
          <label>
            Name
            <input className="field" value={name} onChange={(e) => setName(e.target.value)} autoFocus autoComplete="off" spellCheck={false} />
          </label>
        )}
        <label>
          Value <span className="soft">(never shown again)</span>
          <input className="field" type="password" value={value} onChange={(e) => setValue(e.target.value)} autoComplete="off" autoFocus={!!of} />
        </label>
        <label>
          Hosts to which tools may send it <span className="soft">(none: only in the environment of commands)</span>
          <input className="field" value={hosts} onChange={(e) => setHosts(e.target.value)} placeholder="api.example.com" autoComplete="off" spellCheck={false} />
        </label>
        {set.error ? <Failure error={set.error} /> : null}
        <div className="row-of">
          <Button type="submit" look="first" isDisabled={set.pending || id === "" || value === ""}>
            {set.pending ? "Storing…" : "Store"}
          </Button>
          <Button onPress={onClose}>Cancel</Button>
        </div>
        <Cli text={command("perdure", "secret", of ? "rotate" : "set", session, id || "NAME", ...(of ? [] : chosen.flatMap((h) => ["--host", h])))} curl={{ method: "PUT", path: `/v1/sessions/${session}/secrets/${id || "NAME"}`, body: { value: "VALUE", ...(chosen.length ? { hosts: chosen } : {}) } }} />
      </form>
    </Window>
  );
}
