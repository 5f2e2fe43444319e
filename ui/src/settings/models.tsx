import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { need, type Schemas } from "../../client";
import { api } from "../app/api";
import { Button, Failure } from "../app/pieces";
import { usePages } from "../list/read";
import { useMay } from "../principal/principal";
import { oneLine, safe } from "../text/text";
import { useAct } from "./act";
import { command } from "./command";
import { Cli } from "./dialog";
import { reread, type Provider } from "./providers";

const sources: Record<string, string> = { configuration: "from the configuration of the server, which goes before a stored one", org: "of this org", runtime: "of the whole server" };

// DefaultModel shows and sets the model of sessions that name none.
export function DefaultModel({ providers }: { providers: Provider[] }) {
  const { may } = useMay("admin");
  const [changing, setChanging] = useState(false);
  const read = useQuery({ queryKey: ["default-model"], queryFn: ({ signal }) => need<Schemas["DefaultModel"]>(api.GET("/v1/models/default", { signal })) });
  const now = read.data;
  return (
    <section className="settings-part" aria-labelledby="default-model">
      <h2 id="default-model">Default model</h2>
      {read.error ? <Failure error={read.error} onRetry={() => void read.refetch()} /> : null}
      <div className="row-of">
        <span data-testid="default-model">
          {now && (now.name ? <code className="untrusted">{safe(now.name)}</code> : <span className="soft">None: a session has to name its model.</span>)}
          {now?.source && <span className="soft small"> {sources[now.source] ?? now.source}</span>}
        </span>
        {may && !changing && <Button onPress={() => setChanging(true)}>Change…</Button>}
      </div>
      {changing && <Form now={now?.name ?? ""} providers={providers} close={() => setChanging(false)} />}
    </section>
  );
}

function Form({ now, providers, close }: { now: string; providers: Provider[]; close: () => void }) {
  const [name, setName] = useState(now);
  const models = usePages<Schemas["Model"]>(["models"], (at, signal) => need(api.GET("/v1/models", { signal, params: { query: at } })));
  const done = () => {
    reread();
    close();
  };
  const set = useAct(() => need(api.PUT("/v1/models/default", { body: { name: name.trim() } } as never)), done);
  const clear = useAct(() => need(api.DELETE("/v1/models/default", {} as never)), done);
  const known = new Set([...(models.rows?.map((m) => m.name) ?? []), ...providers.flatMap((p) => (p.default_model ? [`${p.name}/${p.default_model}`] : []))]);
  const busy = set.pending || clear.pending;
  return (
    <form
      className="stack"
      onSubmit={(e) => {
        e.preventDefault();
        set.run();
      }}
    >
      <label>
        PROVIDER/MODEL
        <input className="field" list="known-models" value={name} onChange={(e) => setName(e.target.value)} autoFocus autoComplete="off" spellCheck={false} />
      </label>
      <datalist id="known-models">
        {[...known].map((m) => (
          <option key={m} value={m}>
            {oneLine(m, 100)}
          </option>
        ))}
      </datalist>
      {set.error || clear.error ? <Failure error={set.error ?? clear.error} /> : null}
      <div className="row-of">
        <Button type="submit" look="first" isDisabled={busy || name.trim() === ""}>
          Set
        </Button>
        {now && (
          <Button isDisabled={busy} onPress={clear.run}>
            Remove the default
          </Button>
        )}
        <Button onPress={close}>Cancel</Button>
      </div>
      <Cli text={command("perdure", "model", "default", name.trim() || "NAME")} curl={{ method: "PUT", path: "/v1/models/default", body: { name: name.trim() || "NAME" } }} />
    </form>
  );
}
