import { useState } from "react";
import { need, type Schemas } from "../../client";
import { api, queries } from "../app/api";
import type { Look } from "../app/icon";
import { Button, Failure } from "../app/pieces";
import { usePages } from "../list/read";
import { useMay } from "../principal/principal";
import { oneLine, plural, safe } from "../text/text";
import { useAct } from "./act";
import { command } from "./command";
import { Ask, Cli } from "./dialog";
import { DefaultModel } from "./models";
import { useItem } from "./pages";
import { Facts, Head, Lines, Loaded, Missing, Scoped, Split } from "./pieces";
import { ProviderForm } from "./provider-form";

export type Provider = Schemas["Provider"];

const look = (p: Provider): Look =>
  p.ready ? { icon: "check", word: "Ready", tone: "good" } : { icon: "cross", word: "Not ready", tone: "warn" };

const sources: Record<string, string> = { environment: "from the environment of the server", store: "stored", program: "part of the program" };

// reread reads providers and models again.
export const reread = () => {
  for (const key of ["providers", "models", "default-model"]) void queries.invalidateQueries({ queryKey: [key] });
};

// Providers lists the providers of models, and the default model.
export function Providers() {
  const { item } = useItem();
  const [adding, setAdding] = useState(false);
  const { may, why } = useMay("admin");
  const read = usePages<Provider>(["providers"], (at, signal) => need(api.GET("/v1/providers", { signal, params: { query: at } })));
  const chosen = read.rows?.find((p) => p.name === item);
  return (
    <>
      <Head title="Providers and models" about="A key is sealed in the store, sent to its provider only, and never shown again.">
        {may ? (
          <Button look="first" onPress={() => setAdding(true)}>
            Add a provider
          </Button>
        ) : (
          <span className="soft small">{why}</span>
        )}
      </Head>
      <DefaultModel providers={read.rows ?? []} />
      <Loaded read={{ ...read, data: read.rows }}>
        {(all) => (
          <Split
            section="providers"
            noun="provider"
            list={
              <Lines
                section="providers"
                chosen={item}
                label={plural(all.length, "provider")}
                empty="There is no provider. Add one, or set OPENAI_API_KEY or ANTHROPIC_API_KEY for the server."
                lines={all.map((p) => ({
                  id: p.name,
                  item: p.name,
                  look: look(p),
                  title: oneLine(p.name, 80),
                  detail: [p.kind, p.default_model && oneLine(p.default_model, 60), p.source && (sources[p.source] ?? p.source), !p.ready && p.missing && oneLine(p.missing, 160)].filter(Boolean).join(" · "),
                }))}
              />
            }
            detail={chosen ? <ProviderDetail key={chosen.name} of={chosen} /> : item !== undefined ? <Missing noun="provider" id={item} section="providers" /> : undefined}
          />
        )}
      </Loaded>
      {adding && <ProviderForm onClose={() => setAdding(false)} />}
    </>
  );
}

function ProviderDetail({ of }: { of: Provider }) {
  const [open, setOpen] = useState<"" | "change" | "delete">("");
  const { choose } = useItem();
  const close = () => setOpen("");
  return (
    <>
      <h2>{safe(of.name)}</h2>
      <Facts
        facts={[
          ["State", look(of).word],
          ["Missing", of.missing && <span className="untrusted">{safe(of.missing)}</span>],
          ["Protocol", of.kind],
          ["URL", of.base_url && <code className="untrusted">{safe(of.base_url)}</code>],
          ["Default model", of.default_model && <code>{safe(of.default_model)}</code>],
          ["Key", of.has_key ? "stored" : "none"],
          ["Source", of.source && (sources[of.source] ?? of.source)],
          ["Variable", of.variable && <code>{safe(of.variable)}</code>],
        ]}
      />
      <Scoped scope="admin">
        <ProviderTest of={of} />
        {(of.source === "store" || of.kind === "openai" || of.kind === "anthropic") && (
          <div className="row-of">
            <Button onPress={() => setOpen("change")}>{of.source === "store" ? "Change…" : "Store a key…"}</Button>
            {of.source === "store" && <Button onPress={() => setOpen("delete")}>Delete…</Button>}
          </div>
        )}
      </Scoped>
      {open === "change" && <ProviderForm of={of} onClose={close} />}
      {open === "delete" && (
        <Ask
          title={`Delete the provider ${oneLine(of.name, 60)}?`}
          action="Delete provider and key"
          word={of.name}
          cli={command("perdure", "provider", "delete", of.name)}
          curl={{ method: "DELETE", path: `/v1/providers/${of.name}` }}
          run={async () => {
            await need(api.DELETE("/v1/providers/{provider}", { params: { path: { provider: of.name } } } as never));
            choose({ item: undefined });
            reread();
          }}
          onClose={close}
        >
          <p>Its key is removed from the store. Sessions whose model belongs to it fail until it is stored again.</p>
        </Ask>
      )}
    </>
  );
}

const results: Record<string, Look> = {
  ok: { icon: "check", word: "Works", tone: "good" },
  key_missing: { icon: "cross", word: "There is no key", tone: "bad" },
  refused: { icon: "cross", word: "The provider refused", tone: "bad" },
  no_model: { icon: "cross", word: "There is no such model", tone: "bad" },
  unreachable: { icon: "cross", word: "Unreachable", tone: "bad" },
  limited: { icon: "clock", word: "Limited by the provider", tone: "warn" },
};

function ProviderTest({ of }: { of: Provider }) {
  const [model, setModel] = useState("");
  const test = useAct(() =>
    need<Schemas["ProviderTest"]>(api.POST("/v1/providers/{provider}/test", { params: { path: { provider: of.name } }, body: model.trim() ? { model: model.trim() } : {} } as never)),
  );
  const r = test.result;
  const said = r && (results[r.result] ?? { icon: "dot", word: r.result, tone: "soft" });
  return (
    <form
      className="stack"
      onSubmit={(e) => {
        e.preventDefault();
        test.run();
      }}
    >
      <h3>Test</h3>
      <div className="row-of">
        <input className="field grow" aria-label="Model to test" placeholder={of.default_model ? `Default: ${oneLine(of.default_model, 60)}` : "Model"} value={model} onChange={(e) => setModel(e.target.value)} />
        <Button type="submit" isDisabled={test.pending}>
          {test.pending ? "Asking…" : "Ask for one word"}
        </Button>
      </div>
      <p className="soft small">It costs a few tokens.</p>
      {test.error ? <Failure error={test.error} /> : null}
      {r && said && (
        <p role="status" className={`small tone-${said.tone}`}>
          {said.word}: {oneLine(r.model, 80)}
          {r.latency_ms !== undefined && r.result === "ok" ? `, ${r.latency_ms} ms` : ""}
          {r.why ? ` · ${oneLine(r.why, 300)}` : ""}
        </p>
      )}
      <Cli text={command("perdure", "provider", "test", model.trim() ? `${of.name}/${model.trim()}` : of.name)} curl={{ method: "POST", path: `/v1/providers/${of.name}/test`, body: model.trim() ? { model: model.trim() } : {} }} />
    </form>
  );
}
