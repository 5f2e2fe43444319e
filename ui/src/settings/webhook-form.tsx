import { useState } from "react";
import { need } from "../../client";
import { api } from "../app/api";
import { Button, Failure } from "../app/pieces";
import { useAct } from "./act";
import { command } from "./command";
import { Cli, Window } from "./dialog";
import type { Webhook } from "./webhooks";

// WebhookForm creates a webhook. The answer has its secret, so it goes to onMade and into no cache.
export function WebhookForm({ onClose, onMade }: { onClose: () => void; onMade: (w: Webhook) => void }) {
  const [url, setUrl] = useState("");
  const [types, setTypes] = useState("");
  const [body, setBody] = useState("id");
  const chosen = types.split(/[\s,]+/).filter(Boolean);
  const create = useAct(() => need<Webhook>(api.POST("/v1/webhooks", { body: { url: url.trim(), body, ...(chosen.length ? { types: chosen } : {}) } } as never)), onMade);
  return (
    <Window title="Create a webhook" onClose={onClose}>
      <form
        className="stack"
        onSubmit={(e) => {
          e.preventDefault();
          create.run();
        }}
      >
        <label>
          URL
          <input className="field" value={url} onChange={(e) => setUrl(e.target.value)} placeholder="https://example.com/perdure" inputMode="url" autoFocus autoComplete="off" spellCheck={false} />
        </label>
        <label>
          Types <span className="soft">(default: all; task.* is each type of tasks)</span>
          <input className="field" value={types} onChange={(e) => setTypes(e.target.value)} placeholder="task.* approval.requested" autoComplete="off" spellCheck={false} />
        </label>
        <label>
          Body
          <select className="field" value={body} onChange={(e) => setBody(e.target.value)}>
            <option value="id">Ids only: the receiver reads the rest with its own rights</option>
            <option value="snapshot">The event, as the API shows it</option>
          </select>
        </label>
        {create.error ? <Failure error={create.error} /> : null}
        <div className="row-of">
          <Button type="submit" look="first" isDisabled={create.pending || url.trim() === ""}>
            {create.pending ? "Creating…" : "Create"}
          </Button>
          <Button onPress={onClose}>Cancel</Button>
        </div>
        <p className="soft small">
          A receiver with a private address has to be allowed first: <code>perdure egress allow --webhook HOST:PORT</code>
        </p>
        <Cli text={command("perdure", "webhook", "create", url.trim() || "URL", ...chosen.flatMap((t) => ["--type", t]), ...(body === "snapshot" ? ["--body", "snapshot"] : []))} curl={{ method: "POST", path: "/v1/webhooks", body: { url: url.trim() || "URL", body, ...(chosen.length ? { types: chosen } : {}) } }} />
      </form>
    </Window>
  );
}
