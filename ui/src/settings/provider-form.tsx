import { useState } from "react";
import { need } from "../../client";
import { api } from "../app/api";
import { Button, Failure } from "../app/pieces";
import { useAct } from "./act";
import { command } from "./command";
import { Cli, Window } from "./dialog";
import { useItem } from "./pages";
import { reread, type Provider } from "./providers";

// ProviderForm stores a provider with its key, or changes a stored one. A key that was stored is not
// shown; without a new one it stays, unless the URL changes.
export function ProviderForm({ of, onClose }: { of?: Provider; onClose: () => void }) {
  const { choose } = useItem();
  const [name, setName] = useState(of?.name ?? "");
  const [kind, setKind] = useState(of?.kind === "anthropic" ? "anthropic" : "openai");
  const [url, setUrl] = useState(of?.base_url ?? "");
  const [model, setModel] = useState(of?.default_model ?? "");
  const [key, setKey] = useState("");
  const [noKey, setNoKey] = useState(false);
  const id = name.trim();
  const kept = !!of?.has_key && !key && !noKey;
  const store = useAct(
    () =>
      need<Provider>(
        api.PUT("/v1/providers/{provider}", {
          params: { path: { provider: id } },
          body: { kind, ...(url.trim() ? { base_url: url.trim() } : {}), ...(model.trim() ? { default_model: model.trim() } : {}), ...(noKey ? { key: "" } : key ? { key: key.trim() } : {}) },
        } as never),
      ),
    () => {
      reread();
      onClose();
      choose({ item: id });
    },
  );
  return (
    <Window title={of ? `Provider ${of.name}` : "Add a provider"} onClose={onClose}>
      <form
        className="stack"
        onSubmit={(e) => {
          e.preventDefault();
          store.run();
        }}
      >
        {!of && (
          <label>
            Name, as in NAME/MODEL
            <input className="field" value={name} onChange={(e) => setName(e.target.value)} placeholder="openai, anthropic, house…" autoFocus autoComplete="off" spellCheck={false} required />
          </label>
        )}
        <label>
          Protocol
          <select className="field" value={kind} onChange={(e) => setKind(e.target.value)}>
            <option value="openai">openai: Chat Completions, also of Ollama, vLLM and gateways</option>
            <option value="anthropic">anthropic: Messages</option>
          </select>
        </label>
        <label>
          URL <span className="soft">(default: the provider of the protocol)</span>
          <input className="field" value={url} onChange={(e) => setUrl(e.target.value)} placeholder="https://models.example/v1" inputMode="url" autoComplete="off" spellCheck={false} />
        </label>
        <label>
          Key <span className="soft">{kept ? "(the stored one stays if this is empty)" : "(never shown again)"}</span>
          <input className="field" type="password" value={key} onChange={(e) => setKey(e.target.value)} autoComplete="off" disabled={noKey} />
        </label>
        <label className="check">
          <input type="checkbox" checked={noKey} onChange={(e) => setNoKey(e.target.checked)} /> This server needs no key
        </label>
        <label>
          Default model <span className="soft">(as the provider names it)</span>
          <input className="field" value={model} onChange={(e) => setModel(e.target.value)} autoComplete="off" spellCheck={false} />
        </label>
        {store.error ? <Failure error={store.error} /> : null}
        <div className="row-of">
          <Button type="submit" look="first" isDisabled={store.pending || id === ""}>
            {store.pending ? "Storing…" : "Store"}
          </Button>
          <Button onPress={onClose}>Cancel</Button>
        </div>
        <Cli
          text={command("perdure", "provider", "set", id || "NAME", "--kind", kind, ...(url.trim() ? ["--base-url", url.trim()] : []), ...(model.trim() ? ["--default-model", model.trim()] : []), noKey && "--no-key", kept && "--keep-key")}
          curl={{
            method: "PUT",
            path: `/v1/providers/${id || "NAME"}`,
            body: { kind, ...(url.trim() ? { base_url: url.trim() } : {}), ...(model.trim() ? { default_model: model.trim() } : {}), ...(noKey ? { key: "" } : kept ? {} : { key: "KEY" }) },
          }}
        />
      </form>
    </Window>
  );
}
