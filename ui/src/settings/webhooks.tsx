import { useState } from "react";
import { need, type Schemas } from "../../client";
import { api, queries } from "../app/api";
import type { Look } from "../app/icon";
import { Button } from "../app/pieces";
import { usePages } from "../list/read";
import { oneLine, plural, safe } from "../text/text";
import { command } from "./command";
import { Ask, Once } from "./dialog";
import { Deliveries } from "./deliveries";
import { useItem } from "./pages";
import { Facts, Head, Lines, Loaded, Missing, Split } from "./pieces";
import { WebhookForm } from "./webhook-form";

export type Webhook = Schemas["ShownWebhook"];

const look = (w: Webhook): Look =>
  !w.enabled ? { icon: "pause", word: "Disabled", tone: "soft" }
  : w.failures > 0 ? { icon: "cross", word: `${plural(w.failures, "failure")} in a row`, tone: "bad" }
  : { icon: "check", word: "Enabled", tone: "good" };

const reread = () => queries.invalidateQueries({ queryKey: ["webhooks"] });

// Webhooks lists the webhooks of this org.
export function Webhooks() {
  const { item, choose } = useItem();
  const [creating, setCreating] = useState(false);
  const [secret, setSecret] = useState<{ url: string; secret: string }>();
  const read = usePages<Webhook>(["webhooks"], (at, signal) => need(api.GET("/v1/webhooks", { signal, params: { query: at } })));
  const chosen = read.rows?.find((w) => w.id === item);
  const show = (w: Webhook) => {
    if (w.secret) setSecret({ url: w.url, secret: w.secret });
    void reread();
  };
  return (
    <>
      <Head title="Webhooks" about="Signed requests to other servers, for each event that somebody may wait for. A delivery is repeated until the receiver accepts it.">
        <Button look="first" onPress={() => setCreating(true)}>
          Create a webhook
        </Button>
      </Head>
      <Loaded read={{ ...read, data: read.rows }}>
        {(all) => (
          <Split
            section="webhooks"
            noun="webhook"
            list={
              <Lines
                section="webhooks"
                chosen={item}
                label={plural(all.length, "webhook")}
                empty="There is no webhook."
                lines={all.toReversed().map((w) => ({
                  id: w.id,
                  item: w.id,
                  look: look(w),
                  title: oneLine(w.url, 120),
                  detail: w.types?.length ? oneLine(w.types.join(", "), 120) : "all types",
                }))}
              />
            }
            detail={chosen ? <WebhookDetail key={chosen.id} of={chosen} show={show} /> : item !== undefined ? <Missing noun="webhook" id={item} section="webhooks" /> : undefined}
          />
        )}
      </Loaded>
      {creating && (
        <WebhookForm
          onClose={() => setCreating(false)}
          onMade={(w) => {
            setCreating(false);
            choose({ item: w.id });
            show(w);
          }}
        />
      )}
      {secret && (
        <Once title="Secret of the webhook" secret={secret.secret} onClose={() => setSecret(undefined)}>
          The receiver of <span className="untrusted">{safe(secret.url)}</span> verifies signatures with it. It is shown now and never again.
        </Once>
      )}
    </>
  );
}

function WebhookDetail({ of, show }: { of: Webhook; show: (w: Webhook) => void }) {
  const [ask, setAsk] = useState<"" | "toggle" | "rotate" | "delete">("");
  const { choose } = useItem();
  const close = () => setAsk("");
  const host = oneLine(URL.canParse(of.url) ? new URL(of.url).host : of.url, 80);
  const change = (body: object) => need<Webhook>(api.PATCH("/v1/webhooks/{id}", { params: { path: { id: of.id } }, body } as never));
  return (
    <>
      <h2 className="untrusted">{safe(of.url)}</h2>
      <Facts
        facts={[
          ["State", look(of).word],
          ["Disabled because", of.disabled_reason && <span className="untrusted">{safe(of.disabled_reason)}</span>],
          ["Fails since", of.failing_since && new Date(of.failing_since).toLocaleString()],
          ["Types", of.types?.length ? oneLine(of.types.join(", "), 400) : "all types"],
          ["Labels", of.labels?.length ? oneLine(of.labels.join(", "), 200) : ""],
          ["Session", of.session_id],
          ["Body", of.body === "snapshot" ? "a snapshot of the event" : "ids only"],
          ["Created", `${new Date(of.created_at).toLocaleString()}${of.owner ? ` by ${oneLine(of.owner, 60)}` : ""}`],
          ["Id", <code key="id">{of.id}</code>],
        ]}
      />
      <div className="row-of">
        <Button onPress={() => setAsk("toggle")}>{of.enabled ? "Disable…" : "Enable…"}</Button>
        <Button onPress={() => setAsk("rotate")}>Rotate the secret…</Button>
        <Button onPress={() => setAsk("delete")}>Delete…</Button>
      </div>
      <Deliveries webhook={of} />
      {ask === "toggle" && (
        <Ask
          title={of.enabled ? "Disable this webhook?" : "Enable this webhook?"}
          action={of.enabled ? "Disable" : "Enable"}
          cli={command("perdure", "webhook", "change", of.id, of.enabled ? "--disable" : "--enable")}
          curl={{ method: "PATCH", path: `/v1/webhooks/${of.id}`, body: { enabled: !of.enabled } }}
          run={async () => show(await change({ enabled: !of.enabled }))}
          onClose={close}
        >
          <p>{of.enabled ? "Deliveries wait, and are sent when it is enabled again." : "Deliveries that are queued are sent, too."}</p>
        </Ask>
      )}
      {ask === "rotate" && (
        <Ask
          title="Rotate the secret?"
          action="Rotate"
          cli={command("perdure", "webhook", "change", of.id, "--rotate")}
          curl={{ method: "POST", path: `/v1/webhooks/${of.id}/rotate`, body: {} }}
          run={async () => show(await need<Webhook>(api.POST("/v1/webhooks/{id}/rotate", { params: { path: { id: of.id } }, body: {} } as never)))}
          onClose={close}
        >
          <p>Deliveries are signed with both secrets for a day. Give the receiver the new one in that time.</p>
        </Ask>
      )}
      {ask === "delete" && (
        <Ask
          title="Delete this webhook?"
          action="Delete"
          word={host}
          cli={command("perdure", "webhook", "delete", of.id)}
          curl={{ method: "DELETE", path: `/v1/webhooks/${of.id}` }}
          run={async () => {
            await need(api.DELETE("/v1/webhooks/{id}", { params: { path: { id: of.id } } } as never));
            choose({ item: undefined });
            void reread();
          }}
          onClose={close}
        >
          <p>Its deliveries are deleted with it, also those that are not sent yet.</p>
        </Ask>
      )}
    </>
  );
}
