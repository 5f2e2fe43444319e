import { useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect } from "react";
import { need, RequestFailed } from "../../client";
import { api, queries } from "../app/api";
import { useNow, useTitle } from "../app/hooks";
import { State } from "../app/icon";
import { NotFound } from "../app/notfound";
import { Button, CopyLine, Failure } from "../app/pieces";
import type { Task } from "../event/types";
import { useMay } from "../principal/principal";
import { Bar, LongText } from "../session/card";
import { classWords } from "../session/look";
import { age, duration, oneLine, pretty, safe } from "../text/text";
import { useOpenTasks } from "./live";
import { TaskLog } from "./log";
import { ended, taskLook } from "./look";
import "./task.css";

const route = getRouteApi("/tasks/$id");

export function TaskPage() {
  const { id } = route.useParams();
  const open = useOpenTasks().find((t) => t.id === id);
  const read = useQuery({ queryKey: ["task", id], queryFn: ({ signal }) => need(api.GET("/v1/tasks/{id}", { signal, params: { path: { id } } })) as Promise<Task> });
  const { refetch } = read;
  useEffect(() => {
    void refetch();
  }, [open, refetch]);
  useTitle(read.data ? oneLine(read.data.display_name || read.data.tool, 60) : "Task");
  if (read.error instanceof RequestFailed && (read.error.status === 404 || read.error.status === 400)) return <NotFound what="task" id={id} />;
  if (!read.data) return <div className="center">{read.error ? <Failure error={read.error} onRetry={() => void refetch()} /> : <p role="status">Loading…</p>}</div>;
  return <TaskView task={read.data} />;
}

function TaskView({ task }: { task: Task }) {
  const now = useNow();
  const live = !ended(task.state);
  return (
    <>
      <header className="head">
        <h1 dir="auto">{safe(task.display_name || task.tool)}</h1>
        <span data-testid="task-state">
          <State look={taskLook(task.state)} />
        </span>
        <span className="grow" />
        {live && <Cancel task={task} />}
      </header>
      <div className="scroll">
        <div className="detail">
          {task.state === "unknown" && (
            <div className="notice">
              <p>
                Nobody knows whether the effect of this task happened: its worker ended between claim and outcome, and the effect must not happen twice. Check at the other service, then record what
                you found:
              </p>
              <CopyLine text={`perdure task resolve ${task.id}`} />
            </div>
          )}
          {task.error && (
            <div className="notice bad">
              <p className="untrusted">{safe(task.error.message)}</p>
            </div>
          )}
          <Bar progress={task.progress} />
          {task.input_request && (
            <div className="notice">
              <p className="untrusted" dir="auto">
                {safe(task.input_request.prompt)}
              </p>
              <CopyLine text={`perdure task input ${task.id} "ANSWER"`} />
            </div>
          )}
          <dl className="facts">
            <dt>Session</dt>
            <dd>
              <Link to="/sessions/$id" params={{ id: task.session_id }}>
                {task.session_id}
              </Link>
            </dd>
            <dt>Tool</dt>
            <dd>
              {oneLine(task.tool, 80)} · {classWords[task.effect_class] ?? task.effect_class}
            </dd>
            <dt>Created</dt>
            <dd>{age(task.created_at, now)}</dd>
            {task.started_at && (
              <>
                <dt>{live ? "Runs for" : "Ran for"}</dt>
                <dd>{duration((task.finished_at ? Date.parse(task.finished_at) : now) - Date.parse(task.started_at))}</dd>
              </>
            )}
            <dt>Attempt</dt>
            <dd>
              {task.attempt}
              {task.executions > 1 && `, started ${task.executions} times`}
            </dd>
            {task.state_detail && (
              <>
                <dt>Status</dt>
                <dd>{oneLine(task.state_detail, 300)}</dd>
              </>
            )}
          </dl>
          <TaskLog id={task.id} live={live} />
          {task.result && (
            <section>
              <h2>Result</h2>
              <LongText text={safe(task.result)} label="Result" />
            </section>
          )}
          <section>
            <h2>Arguments</h2>
            <LongText text={pretty(task.spec?.arguments)} label="Arguments" />
          </section>
        </div>
      </div>
    </>
  );
}

// Cancel asks for the end of a task, and says how far that got.
function Cancel({ task }: { task: Task }) {
  const { may, why } = useMay("write");
  const cancel = useMutation({
    mutationFn: () => need(api.POST("/v1/tasks/{id}/cancel", { params: { path: { id: task.id } }, body: {} } as never)),
    onSettled: () => queries.invalidateQueries({ queryKey: ["task", task.id] }),
  });
  if (!may) return <span className="soft small">{why}</span>;
  if (task.cancel_requested_at) {
    return (
      <span className="small tone-warn" role="status">
        Cancel requested{task.cancel_by ? ` by ${oneLine(task.cancel_by, 60)}` : ""}
      </span>
    );
  }
  return (
    <span className="row-of">
      {cancel.error && (
        <span className="tone-bad small" role="alert">
          {oneLine(cancel.error.message, 200)}
        </span>
      )}
      <Button isDisabled={cancel.isPending} onPress={() => cancel.mutate()}>
        {cancel.isPending ? "Canceling…" : "Cancel task"}
      </Button>
    </span>
  );
}
