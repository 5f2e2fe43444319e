import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { need } from "../../client";
import { api, queries } from "../app/api";
import { useNow, usePaused } from "../app/hooks";
import { CopyLine, Failure } from "../app/pieces";
import type { Task } from "../event/types";
import { line } from "../text/shell";
import { age, bytes, clock, duration, oneLine, safe } from "../text/text";
import { ended } from "./look";
import { endWords, rows, stateWords, type Processes } from "./processes";
import { forceable } from "./run";
import "./process.css";

type Look = { now: Processes; before?: Processes };

// ProcessPart shows what runs on a machine for the task. It is read again while it is visible, also
// for a task that has ended and left something running.
export function ProcessPart({ task }: { task: Task }) {
  const paused = usePaused();
  const key = ["task-process", task.id];
  const read = useQuery({
    queryKey: [...key, ended(task.state)],
    queryFn: async ({ signal }): Promise<Look> => {
      const now = await need<Processes>(api.GET("/v1/tasks/{id}/process", { signal, params: { path: { id: task.id } } }));
      const [, last] = queries.getQueriesData<Look>({ queryKey: key }).findLast(([, look]) => look) ?? [];
      return { now, ...(last ? { before: last.now } : {}) };
    },
    staleTime: 0,
    placeholderData: (last) => last,
    refetchInterval: (q) => (paused || (ended(task.state) && q.state.data?.now.state !== "running") ? false : 3000),
  });
  if (!read.data) return read.error ? <Failure error={read.error} onRetry={() => void read.refetch()} /> : <p role="status">Loading…</p>;
  return (
    <div className="stack processes" data-testid="process">
      {read.error && (
        <p className="small tone-warn" role="status">
          {oneLine(read.error.message, 200)} This is as of {clock(read.data.now.observed_at)}.
        </p>
      )}
      <Shown look={read.data} task={task} />
    </div>
  );
}

function Shown({ look: { now: p, before }, task }: { look: Look; task: Task }) {
  const now = useNow();
  const memory = p.processes.reduce((sum, one) => sum + one.memory_bytes, 0);
  const facts: [string, ReactNode][] = [
    ["Home", p.home_id && `${p.home_id}${p.host ? ` on ${oneLine(p.host, 60)}` : ""}`],
    ["Supervisor", p.supervisor && `pid ${p.supervisor.pid}, ${p.supervisor.alive ? "holds the command" : "has ended"}, started ${age(p.supervisor.started_at, now)}`],
    ["Command", p.supervisor?.command_pid && `pid ${p.supervisor.command_pid}, execution ${p.execution ?? 1}`],
    ["Sandbox", p.sandbox && [p.sandbox.profile, ...p.sandbox.enforced].map((s) => oneLine(s, 200)).join("; ")],
    ["Network", p.supervisor && (p.sandbox?.network === false ? "closed by the sandbox" : "open: no egress rule restricts a command")],
    ["End", p.end && endWords(p.end)],
    ["Processor time", p.cpu_ms > 0 && duration(p.cpu_ms)],
    ["Memory", memory > 0 && bytes(memory)],
    ["Peak memory", p.end?.peak_bytes && `${bytes(p.end.peak_bytes)} in one process`],
    ["Left running", p.end?.left && `${p.end.left}, and ended with the command`],
  ];
  return (
    <>
      <p>{stateWords(p)}</p>
      <dl className="facts">
        {facts
          .filter(([, value]) => value)
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
      {[p.end?.error, p.end?.limit].filter(Boolean).map((why) => (
        <p key={why} className="notice bad untrusted">
          {safe(why!)}
        </p>
      ))}
      {p.processes.length > 0 && <Tree p={p} before={before} now={now} />}
      {p.count > p.processes.length && <p className="small soft">{p.count - p.processes.length} more processes are not shown.</p>}
      {p.files.length > 0 && (
        <section>
          <h2>Files of the output</h2>
          <ul className="small">
            {p.files.map((f) => (
              <li key={f.path}>
                <code className="untrusted">{safe(f.path)}</code> <span className="soft">{bytes(f.bytes)}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {forceable(task) && <p className="small soft">The task is being canceled. Force, at the top of the page, kills all of these processes now.</p>}
      <CopyLine text={line("perdure", "task", "process", task.id)} />
    </>
  );
}

function Tree({ p, before, now }: { p: Processes; before?: Processes | undefined; now: number }) {
  return (
    <div className="tablebox" tabIndex={0} role="region" aria-label="Processes">
      <table>
        <thead>
          <tr>
            {["Process", "Command", "State", "Age", "Processor", "Memory", "Directory"].map((word) => (
              <th key={word} scope="col">
                {word}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows(p, before).map(({ process: one, depth, share }) => (
            <tr key={`${one.pid} ${one.started_at}`}>
              <td className="mono" title={`process group ${one.process_group}, parent ${one.parent_pid}`}>
                {one.pid}
              </td>
              <td>
                <code className="commandline untrusted" style={{ paddingInlineStart: `${Math.min(depth, 10) * 16}px` }} data-depth={depth} title={oneLine(one.command, 500)}>
                  {depth > 0 && <span aria-hidden="true">└ </span>}
                  {oneLine(one.command, 160)}
                </code>
              </td>
              <td>{oneLine(one.state, 20)}</td>
              <td>{age(one.started_at, now).replace(/ ago$/, "")}</td>
              <td>
                {share !== undefined && `${Math.round(share * 100)} %, `}
                {duration(one.cpu_ms)}
              </td>
              <td title={one.peak_bytes ? `at most ${bytes(one.peak_bytes)} so far` : undefined}>{bytes(one.memory_bytes)}</td>
              <td className="untrusted">{oneLine(one.directory ?? "", 120)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
