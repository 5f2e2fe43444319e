import { useMutation } from "@tanstack/react-query";
import { getRouteApi, useNavigate, Link } from "@tanstack/react-router";
import { useState } from "react";
import { need } from "../../client";
import { api } from "../app/api";
import { useTitle } from "../app/hooks";
import { ActionLines } from "../app/lines";
import { Button, Failure } from "../app/pieces";
import { useMay } from "../principal/principal";
import { Rules, What, When, Where } from "./fields";
import { argsOf, begin, bodyOf, commandOf, timingOf, type Form } from "./form";
import type { Schedule } from "./look";
import { Preview, usePreview } from "./preview";
import { changed } from "./read";
import "../session/new.css";
import "./schedule.css";

const route = getRouteApi("/schedules/new");

export function NewSchedule() {
  const { session } = route.useSearch();
  const navigate = useNavigate();
  const { may, why } = useMay("write");
  const [f, setForm] = useState<Form>(() => ({ ...begin, session: session ?? "", zone: Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC" }));
  const set = (change: Partial<Form>) => setForm((before) => ({ ...before, ...change }));
  const timing = timingOf(f);
  const preview = usePreview(timing);
  const create = useMutation({
    mutationFn: () => need<Schedule>(api.POST("/v1/schedules", { body: bodyOf(f) } as never)),
    onSuccess: async (made) => {
      await changed();
      await navigate({ to: "/schedules/$id", params: { id: made.id } });
    },
  });
  useTitle("New schedule");
  const acts = f.does === "message" ? f.message.trim() !== "" : f.tool.trim() !== "" && !!argsOf(f.args);
  const ready = may && f.session !== "" && acts && preview.fresh && preview.read.isSuccess && (preview.read.data?.next.length ?? 0) > 0;
  return (
    <>
      <header className="head">
        <h1 className="grow">New schedule</h1>
        <Link to="/schedules" search={{}} className="button">
          All schedules
        </Link>
      </header>
      <div className="scroll">
        {!may && <p className="center">{why}</p>}
        <form
          className="schedule-form"
          onSubmit={(e) => {
            e.preventDefault();
            if (ready && !create.isPending) create.mutate();
          }}
        >
          <div className="stack">
            <Where f={f} set={set} />
            <When f={f} set={set} />
            <What f={f} set={set} />
            <Rules f={f} set={set} />
            {create.error && <Failure error={create.error} />}
            <div className="row-of">
              <Button type="submit" look="first" isDisabled={!ready || create.isPending}>
                {create.isPending ? "Creating…" : "Create schedule"}
              </Button>
            </div>
            <ActionLines cli={commandOf(f)} curl={{ method: "POST", path: "/v1/schedules", body: bodyOf(f) }} />
          </div>
          <Preview timing={timing} read={preview.read} />
        </form>
      </div>
    </>
  );
}
