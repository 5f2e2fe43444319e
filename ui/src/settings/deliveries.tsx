import { useState } from "react";
import { need, type Schemas } from "../../client";
import { api, queries } from "../app/api";
import { useNow } from "../app/hooks";
import type { Look } from "../app/icon";
import { Button, Failure } from "../app/pieces";
import { usePages } from "../list/read";
import { age, duration, oneLine, plural } from "../text/text";
import { useAct } from "./act";
import { command } from "./command";
import { Ask, Cli } from "./dialog";
import { Lines, Loaded, More } from "./pieces";
import type { Webhook } from "./webhooks";

type Delivery = Schemas["Delivery"];

const looks: Record<string, Look> = {
  queued: { icon: "clock", word: "Queued", tone: "warn" },
  delivered: { icon: "check", word: "Delivered", tone: "good" },
  failed: { icon: "cross", word: "Failed", tone: "bad" },
  dropped: { icon: "stop", word: "Dropped: its event no longer exists", tone: "soft" },
};

const waits = (d: Delivery) => d.state === "queued";

// Deliveries lists what was sent to a webhook, and what waits to be sent.
export function Deliveries({ webhook }: { webhook: Webhook }) {
  const now = useNow(2000);
  const [again, setAgain] = useState<Delivery>();
  const key = ["deliveries", webhook.id];
  const read = usePages<Delivery>(key, (at, signal) => need(api.GET("/v1/webhooks/{id}/deliveries", { signal, params: { path: { id: webhook.id }, query: at } })), { every: 2000 });
  const reread = () => {
    void queries.invalidateQueries({ queryKey: key });
    void queries.invalidateQueries({ queryKey: ["webhooks"] });
  };
  const ping = useAct(() => need<Delivery>(api.POST("/v1/webhooks/{id}/test", { params: { path: { id: webhook.id } }, body: {} } as never)), reread);
  return (
    <>
      <div className="row-of">
        <h3 className="grow">Deliveries</h3>
        <Button isDisabled={ping.pending} onPress={ping.run}>
          {ping.pending ? "Sending…" : "Send a ping"}
        </Button>
      </div>
      {ping.error ? <Failure error={ping.error} /> : null}
      <Loaded read={{ ...read, data: read.rows }}>
        {(all) => (
          <Lines
            label={plural(all.length, "delivery").replace("deliverys", "deliveries")}
            empty="Nothing was sent yet."
            lines={all.map((d) => {
              const last = d.tries?.at(-1);
              return {
                id: d.id,
                look: looks[d.state] ?? { icon: "dot", word: oneLine(d.state, 30), tone: "soft" },
                title: oneLine(d.type, 80),
                detail: [
                  age(d.created_at, now),
                  plural(d.attempts, "attempt"),
                  last?.status ? `last answer ${last.status}` : "",
                  last?.error ? oneLine(last.error, 160) : "",
                  waits(d) && d.due_at && Date.parse(d.due_at) > now ? `next in ${duration(Date.parse(d.due_at) - now)}` : "",
                ]
                  .filter(Boolean)
                  .join(" · "),
                aside: !waits(d) && (
                  <Button onPress={() => setAgain(d)} aria-label={`Send again… ${oneLine(d.type, 60)}, ${d.id}`}>
                    Send again…
                  </Button>
                ),
              };
            })}
          />
        )}
      </Loaded>
      <More read={read} />
      <Cli text={command("perdure", "webhook", "test", webhook.id)} curl={{ method: "POST", path: `/v1/webhooks/${webhook.id}/test`, body: {} }} />
      {again && (
        <Ask
          title="Send this delivery again?"
          action="Send again"
          cli={command("perdure", "webhook", "redeliver", webhook.id, again.id)}
          curl={{ method: "POST", path: `/v1/webhooks/${webhook.id}/deliveries/${again.id}/redeliver`, body: {} }}
          run={async () => {
            await need(api.POST("/v1/webhooks/{id}/deliveries/{delivery}/redeliver", { params: { path: { id: webhook.id, delivery: again.id } }, body: {} } as never));
            reread();
          }}
          onClose={() => setAgain(undefined)}
        >
          <p>The receiver gets it under the same id. A receiver that keeps ids ignores what it has seen.</p>
        </Ask>
      )}
    </>
  );
}
