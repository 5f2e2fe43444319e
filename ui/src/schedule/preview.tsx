import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { need, RequestFailed } from "../../client";
import { api } from "../app/api";
import { Icon } from "../app/icon";
import { safe } from "../text/text";
import { NextFires } from "./next";

export type Timing = { cron_expression?: string; scheduled_at?: string; timezone: string };

const shown = 5; // fires
const pause = 250; // milliseconds without a key, before the server is asked

// usePreview asks the server when a schedule would fire. fresh says that the answer is for what is
// typed now.
export function usePreview(timing: Timing) {
  const typed = JSON.stringify(timing);
  const [asked, setAsked] = useState(typed);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(typed), pause);
    return () => clearTimeout(timer);
  }, [typed]);
  const query = JSON.parse(asked) as Timing;
  const read = useQuery({
    queryKey: ["schedule preview", asked],
    enabled: !!(query.cron_expression || query.scheduled_at),
    queryFn: ({ signal }) => need(api.GET("/v1/schedules:preview", { signal, params: { query: { ...query, n: shown } } })),
    staleTime: 30_000,
  });
  return { read, fresh: asked === typed };
}

// Preview says in words when a schedule would fire, and names its next fires, or says why the server
// would refuse it.
export function Preview({ timing, read }: { timing: Timing; read: ReturnType<typeof usePreview>["read"] }) {
  const empty = !timing.cron_expression && !timing.scheduled_at;
  const refusal = read.error;
  return (
    <section className="preview" aria-labelledby="preview-title" data-testid="preview">
      <h2 id="preview-title">When it fires</h2>
      <div role="status">
        {empty ? (
          <p className="soft">Enter an expression, such as 30 7 * * 1-5.</p>
        ) : refusal ? (
          <p className="tone-bad untrusted">
            <Icon name="cross" /> {refusal instanceof RequestFailed && refusal.status === 0 ? "The server does not answer." : sentence(refusal.message)}
          </p>
        ) : read.data ? (
          <p>
            <strong>{read.data.in_words ? safe(read.data.in_words) : "once"}</strong>
          </p>
        ) : (
          <p className="soft">…</p>
        )}
      </div>
      {!empty && !refusal && read.data && (
        <>
          <h2>{read.data.next.length === 1 ? "Its fire" : `Next ${read.data.next.length} fires`}</h2>
          <NextFires fires={read.data.next} zone={timing.timezone} />
        </>
      )}
    </section>
  );
}

// sentence returns the reason of a refusal without the names of the steps before it.
function sentence(message: string): string {
  return safe(message.replace(/^preview schedule: /, "").replace(/^invalid: /, ""));
}
