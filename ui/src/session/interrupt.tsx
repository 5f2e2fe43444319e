import { useMutation } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { need } from "../../client";
import { api, queries } from "../app/api";
import { Button } from "../app/pieces";
import { byInterrupt } from "../task/life";
import { liveRows } from "../event/list";
import { useOpenTasks } from "../task/live";
import { line } from "../text/shell";
import { oneLine } from "../text/text";

const Ending = lazy(async () => ({ default: (await import("../task/ending")).Ending }));

// Interrupt ends the turn of a session. It asks first where other work of the session keeps running.
export function Interrupt({ session }: { session: string }) {
  const tasks = useOpenTasks();
  const [asks, setAsks] = useState(false);
  const run = () => need(api.POST("/v1/sessions/{id}/interrupt", { params: { path: { id: session } }, body: {} } as never));
  const act = useMutation({ mutationFn: run, onSettled: () => queries.invalidateQueries({ queryKey: ["session", session] }) });
  const asksFirst = tasks.length >= liveRows || byInterrupt(session, tasks).others.length > 0;
  return (
    <>
      {act.error && (
        <span className="tone-bad small" role="alert">
          {oneLine(act.error.message, 200)}
        </span>
      )}
      <Button isDisabled={act.isPending} onPress={() => (asksFirst ? setAsks(true) : act.mutate())}>
        Interrupt
      </Button>
      {asks && (
        <Suspense>
          <Ending
            act={{ title: "Interrupt the turn", button: "Interrupt", session, run, cli: line("perdure", "session", "interrupt", session), curl: { method: "POST", path: `/v1/sessions/${session}/interrupt`, body: {} } }}
            share={(all) => byInterrupt(session, all)}
            onClose={() => setAsks(false)}
          >
            <p>The turn ends with the calls that it waits for. What it has written is kept.</p>
          </Ending>
        </Suspense>
      )}
    </>
  );
}
