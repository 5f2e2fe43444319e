import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useMemo } from "react";
import { Tab, TabList, TabPanel, Tabs } from "react-aria-components";
import { need, RequestFailed } from "../../client";
import { api } from "../app/api";
import { useConnection, useNow, usePaused, useTitle } from "../app/hooks";
import { State } from "../app/icon";
import { NotFound } from "../app/notfound";
import { Failure } from "../app/pieces";
import { serverNow } from "../app/clock";
import type { Event, Task } from "../event/types";
import { Ribbon } from "../recovery/ribbon";
import { classWords } from "../session/look";
import { age, clock, oneLine, safe } from "../text/text";
import { Actions } from "./actions";
import { Answer } from "./answer";
import { heartbeat } from "./heartbeat";
import { lifeOf, lifeWords } from "./life";
import { LifeLine } from "./lifeview";
import { useOpenTasks } from "./live";
import { TaskLog } from "./log";
import { ended, statusOf, taskLook } from "./look";
import { AttemptsPart, ChildrenPart, EventsPart, ResultPart } from "./parts";
import { MessagesPart } from "./messages";
import { fraction, progressWords } from "./rate";
import { Resolve } from "./resolve";
import { useOverview } from "./rows";
import { CancelState } from "./stop";
import "../session/new.css";
import "./task.css";

const ProcessPart = lazy(async () => ({ default: (await import("./process")).ProcessPart }));

const route = getRouteApi("/tasks/$id");

const parts = { log: "Log", result: "Arguments and result", attempts: "Attempts", messages: "Messages", events: "Events", process: "Process", children: "Children" } as const;
type Part = keyof typeof parts;

type Read = { task: Task; readAt: number };

export function TaskPage() {
  const { id } = route.useParams();
  const paused = usePaused();
  const open = useOpenTasks().find((t) => t.id === id);
  const read = useQuery({
    queryKey: ["task", id],
    queryFn: ({ signal }) => need(api.GET("/v1/tasks/{id}", { signal, params: { path: { id } } })) as Promise<Task>,
    refetchInterval: (q) => (q.state.data && !paused && !ended(q.state.data.state) ? 2000 : false),
  });
  const { refetch } = read;
  useEffect(() => {
    void refetch();
  }, [open, refetch]);
  const task = read.data;
  useTitle(task ? oneLine(task.display_name || task.tool, 60) : "Task");
  const seen = useMemo(() => (task ? { task, readAt: serverNow() } : undefined), [task]);
  if (read.error instanceof RequestFailed && (read.error.status === 404 || read.error.status === 400)) return <NotFound what="task" id={id} />;
  if (!seen) return <div className="center">{read.error ? <Failure error={read.error} onRetry={() => void refetch()} /> : <p role="status">Loading…</p>}</div>;
  return <TaskView key={id} read={seen} />;
}

// useEvents reads what the journal has of a task, and again when its record changes.
function useEvents(task: Task) {
  const read = useInfiniteQuery({
    queryKey: ["task-events", task.id],
    queryFn: ({ pageParam, signal }) =>
      need(api.GET("/v1/sessions/{id}/events", { signal, params: { path: { id: task.session_id }, query: { of: task.id, limit: 200, after: String(pageParam) } }, headers: { Accept: "application/json" } })) as unknown as Promise<{ items: Event[]; last_seq: number; read_to: number }>,
    initialPageParam: 0,
    getNextPageParam: (last) => (last.read_to < last.last_seq ? last.read_to : undefined),
  });
  const { refetch } = read;
  const version = `${task.state} ${task.attempt} ${task.cancel_requested_at ?? ""} ${task.force_requested_at ?? ""} ${task.delivered}`;
  useEffect(() => {
    void refetch();
  }, [version, refetch]);
  const events = useMemo(() => read.data?.pages.flatMap((p) => p.items) ?? [], [read.data]);
  return { read, events };
}

// showSelected scrolls a list of tabs to the selected one when its tabs appear. An address may name a tab
// that a narrow screen does not show at first.
function showSelected(tab: HTMLDivElement | null) {
  const list = tab?.closest("[role=tablist]");
  if (!tab || !list || tab.ariaSelected !== "true") return;
  list.scrollLeft += Math.max(0, Math.ceil(tab.getBoundingClientRect().right - list.getBoundingClientRect().right)); // whole pixels
}

function TaskView({ read: { task, readAt } }: { read: Read }) {
  const search = route.useSearch();
  const navigate = useNavigate();
  const now = useNow();
  const c = useConnection();
  const { read, events } = useEvents(task);
  const part: Part = search.tab && search.tab in parts ? (search.tab as Part) : "log";
  const to = (tab: string) => void navigate({ to: "/tasks/$id", params: { id: task.id }, search: tab === "log" ? {} : { tab }, replace: true });
  return (
    <>
      <header className="head">
        <h1 dir="auto">{safe(task.display_name || task.tool)}</h1>
        <span data-testid="task-state">
          <State look={taskLook(task.state)} />
        </span>
        <span className="grow" />
        {c.state === "offline" && <span className="small tone-warn">as of {clock(c.since)}</span>}
        <Actions task={task} />
      </header>
      <Ribbon />
      <div className="scroll taskpage">
        <div className="about">
          <LifeLine task={task} events={events} now={now} />
          {task.state === "unknown" && <Resolve task={task} />}
          {task.state === "awaiting_input" && task.input_request && <Answer key={task.input_request.id} task={task} />}
          <CancelState task={task} events={events} now={now} />
          {task.error && (
            <div className="notice bad">
              <p className="untrusted">{safe(task.error.message)}</p>
            </div>
          )}
          <Facts task={task} readAt={readAt} now={now} />
        </div>
        <Tabs className="parts" selectedKey={part} onSelectionChange={(key) => to(String(key))}>
          <TabList aria-label="Parts of the task" className="tablist">
            {Object.entries(parts).map(([key, word]) => (
              <Tab key={key} ref={showSelected} id={key} className="tab">
                {word}
              </Tab>
            ))}
          </TabList>
          <TabPanel id="log" className="panel logpanel">
            <TaskLog task={task} />
          </TabPanel>
          <TabPanel id="result" className="panel">
            <ResultPart task={task} />
          </TabPanel>
          <TabPanel id="attempts" className="panel">
            <AttemptsPart task={task} events={events} />
          </TabPanel>
          <TabPanel id="messages" className="panel">
            <MessagesPart task={task} />
          </TabPanel>
          <TabPanel id="events" className="panel">
            <EventsPart events={events} seq={search.seq} more={read.hasNextPage} error={read.error} onMore={() => void read.fetchNextPage()} />
          </TabPanel>
          <TabPanel id="process" className="panel">
            <Suspense fallback={<p role="status">Loading…</p>}>
              <ProcessPart task={task} />
            </Suspense>
          </TabPanel>
          <TabPanel id="children" className="panel">
            <ChildrenPart task={task} now={now} />
          </TabPanel>
        </Tabs>
      </div>
    </>
  );
}

function Facts({ task, readAt, now }: { task: Task; readAt: number; now: number }) {
  const overview = useOverview();
  const beat = heartbeat(task, readAt, overview?.heartbeat_interval_ms ?? 0);
  const rows: [string, React.ReactNode][] = [
    ["Session", <Link key="s" to="/sessions/$id" params={{ id: task.session_id }}>{task.session_id}</Link>],
    ["Tool", `${oneLine(task.tool, 80)} · ${classWords[task.effect_class] ?? task.effect_class}`],
    ["Lives", lifeWords[lifeOf(task)]],
    ["Created", age(task.created_at, now)],
  ];
  if (task.progress?.current !== undefined) {
    rows.push(["Progress", <span key="p" className="factbar"><progress max={1} value={fraction(task.progress)} aria-label="Progress" /> {progressWords(task.progress, undefined)} {oneLine(task.progress.label ?? "", 80)}</span>]);
  }
  if (statusOf(task)) rows.push(["Status", oneLine(statusOf(task), 300)]);
  if (beat) rows.push(["Heartbeat", <span key="b" className={`tone-${beat.tone}`}>{beat.words.replace(/^heartbeat /, "")}</span>]);
  if (task.deadline_at && !ended(task.state)) rows.push(["Deadline", clock(task.deadline_at)]);
  return (
    <dl className="facts">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
