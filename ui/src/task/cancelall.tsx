import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { need, type Schemas } from "../../client";
import { api } from "../app/api";
import { Button, Failure } from "../app/pieces";
import { useMay } from "../principal/principal";
import { plural } from "../text/text";
import type { Filter, Tab } from "./filter";

type Bulk = Schemas["Bulk"];

// CancelMatching cancels every unfinished task that passes the filter, also those that the page has not
// read. It is offered where the server can apply the whole filter by itself.
export function CancelMatching({ tab, filter }: { tab: Tab; filter: Filter }) {
  const { may, why } = useMay("write");
  const [open, setOpen] = useState(false);
  if (filter.words.length > 0 || filter.class || filter.state || filter.session || filter.faults.length > 0) return null;
  if (!may) return <span className="soft small">{why}</span>;
  return (
    <>
      <Button onPress={() => setOpen(true)}>Cancel all that match…</Button>
      {open && (
        <ModalOverlay className="backdrop" isDismissable isOpen onOpenChange={setOpen}>
          <Modal className="modal">
            <Dialog>
              <Form tab={tab} filter={filter} close={() => setOpen(false)} />
            </Dialog>
          </Modal>
        </ModalOverlay>
      )}
    </>
  );
}

function Form({ tab, filter, close }: { tab: Tab; filter: Filter; close: () => void }) {
  const wish = { ...(filter.tool ? { tool: filter.tool } : {}), ...(filter.older ? { older: filter.older } : {}) };
  const states = tab === "needs-you" ? ["awaiting_input"] : ["queued", "running"];
  const send = async (dry_run: boolean) => {
    const bulks: Bulk[] = [];
    for (const state of states) bulks.push((await need(api.POST("/v1/tasks:cancel", { body: { filter: { ...wish, state }, dry_run } } as never))) as Bulk);
    return bulks;
  };
  const dry = useQuery({ queryKey: ["bulk-dry", tab, wish], queryFn: () => send(true), staleTime: 0, gcTime: 0 });
  const go = useMutation({ mutationFn: () => send(false) });
  const ids = go.data?.map((b) => b.id) ?? [];
  const progress = useQuery({
    queryKey: ["bulk", ids],
    enabled: ids.length > 0,
    queryFn: ({ signal }) => Promise.all(ids.map((id) => need(api.GET("/v1/bulks/{id}", { signal, params: { path: { id } } })) as Promise<Bulk>)),
    refetchInterval: (q) => (q.state.data?.every((b) => b.state !== "running") ? false : 500),
  });
  const sum = (of: Bulk[] | undefined, field: "matched" | "done" | "failed") => of?.reduce((n, b) => n + b[field], 0) ?? 0;
  const matched = sum(dry.data, "matched");
  const now = progress.data ?? go.data;
  return (
    <div className="stack">
      <Heading slot="title" level={2}>
        Cancel all that match
      </Heading>
      {dry.error ? <Failure error={dry.error} /> : <p data-testid="dry-run">{dry.data ? `${plural(matched, "unfinished task")} match now. Each of them is asked to end, and killed if it has not ended after its grace period.` : "Counting…"}</p>}
      {go.error && <Failure error={go.error} />}
      {now && (
        <p role="status">
          {sum(now, "done")} of {sum(now, "matched")} asked to end{sum(now, "failed") > 0 ? `, ${sum(now, "failed")} refused` : ""}.
        </p>
      )}
      <div className="row-of">
        {go.isSuccess ? (
          <Button look="first" autoFocus onPress={close}>
            Close
          </Button>
        ) : (
          <>
            <Button look="first" isDisabled={!dry.data || matched === 0 || go.isPending} onPress={() => go.mutate()}>
              Cancel {plural(matched, "task")}
            </Button>
            <Button onPress={close}>Back</Button>
          </>
        )}
      </div>
    </div>
  );
}
