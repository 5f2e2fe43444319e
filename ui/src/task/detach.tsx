import { useMutation } from "@tanstack/react-query";
import { need } from "../../client";
import { api } from "../app/api";
import { Button } from "../app/pieces";
import { useMay } from "../principal/principal";
import { oneLine } from "../text/text";

// Detach lets a running call of a turn continue as a task, so that the turn goes ahead without it.
export function Detach({ session, call }: { session: string; call: string }) {
  const { may } = useMay("write");
  const detach = useMutation({ mutationFn: () => need(api.POST("/v1/sessions/{id}/calls/{call}/detach", { params: { path: { id: session, call } }, body: {} } as never)) });
  return (
    <p className="row-of small">
      <span className="soft">This turn waits for it.</span>
      {may && (
        <Button isDisabled={detach.isPending || detach.isSuccess} onPress={() => detach.mutate()}>
          Detach
        </Button>
      )}
      {detach.error && (
        <span className="tone-bad" role="alert">
          {oneLine(detach.error.message, 200)}
        </span>
      )}
    </p>
  );
}
