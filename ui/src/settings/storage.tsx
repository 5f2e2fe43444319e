import { useQuery } from "@tanstack/react-query";
import { need, type Schemas } from "../../client";
import { api, queries } from "../app/api";
import { useNow } from "../app/hooks";
import { State, type Look } from "../app/icon";
import { Button, CopyLine, Failure } from "../app/pieces";
import { age, bytes, duration, plural, safe } from "../text/text";
import { useAct } from "./act";
import { Cli } from "./dialog";
import { Homes } from "./homes";
import { Facts, Head, Loaded, Scoped } from "./pieces";

const looks: Record<string, Look> = {
  none: { icon: "dot", word: "Not verified since the start of the server", tone: "soft" },
  running: { icon: "ring", word: "Verifying", tone: "live", spin: true },
  intact: { icon: "check", word: "Intact", tone: "good" },
  damaged: { icon: "cross", word: "Damaged", tone: "bad" },
  failed: { icon: "cross", word: "Could not be verified", tone: "warn" },
};

// StoragePanel shows the size of the data, the last backup, and whether all data is intact.
export function StoragePanel() {
  const now = useNow(2000);
  const read = useQuery({ queryKey: ["storage"], queryFn: ({ signal }) => need<Schemas["Storage"]>(api.GET("/v1/storage", { signal })), refetchInterval: 10_000 });
  return (
    <>
      <Head title="Storage" about="Where the data of this server is, and whether it is intact." />
      <Loaded read={read}>
        {(s) => (
          <>
            <Facts
              facts={[
                ["Store", s.store === "postgres" ? "Postgres" : "SQLite"],
                ["Data directory", <code key="d" className="untrusted">{safe(s.path)}</code>],
                ["Database", s.store === "sqlite" && bytes(s.database_bytes ?? 0)],
                ["Write-ahead log", s.store === "sqlite" && bytes(s.log_bytes ?? 0)],
                ["Files and images beside it", bytes(s.blob_bytes)],
                ["Free on the disk", s.free_bytes ? <span className={s.free_bytes < 2 ** 30 ? "tone-warn" : ""}>{bytes(s.free_bytes)}</span> : ""],
                [
                  "Last backup",
                  s.last_backup ? (
                    <span key="b" className="untrusted">
                      {age(s.last_backup.created_at, now)}, {bytes(s.last_backup.size_bytes)}, to <code>{safe(s.last_backup.path)}</code>
                    </span>
                  ) : (
                    <span className="tone-warn">none is known</span>
                  ),
                ],
              ]}
            />
            <h2>Back up</h2>
            <p className="small">On the machine of the server, while it runs:</p>
            <CopyLine text={s.store === "postgres" ? "pg_dump DATABASE" : "perdure admin backup /backups/TODAY"} />
          </>
        )}
      </Loaded>
      {read.data?.store === "postgres" && (
        <Scoped scope="admin">
          <Homes now={now} />
        </Scoped>
      )}
      <Verify now={now} />
    </>
  );
}

function Verify({ now }: { now: number }) {
  const key = ["verification"];
  const read = useQuery({
    queryKey: key,
    queryFn: ({ signal }) => need<Schemas["Verification"]>(api.GET("/v1/storage/verification", { signal })),
    refetchInterval: (q) => (q.state.data?.state === "running" ? 1000 : false),
  });
  const start = useAct(
    () => need<Schemas["Verification"]>(api.POST("/v1/storage/verify", { body: {} } as never)),
    (v) => queries.setQueryData(key, v),
  );
  const v = read.data;
  const done = v && v.state !== "running" && v.ended_at && v.started_at;
  return (
    <section className="settings-part" aria-labelledby="verify">
      <div className="row-of">
        <h2 id="verify">Verify</h2>
        {v && (
          <span data-testid="verification">
            <State look={looks[v.state] ?? { icon: "dot", word: v.state, tone: "soft" }} />
          </span>
        )}
      </div>
      <p className="small">Reads all journals, rows and files, and compares them: nothing is changed. It can take minutes, and competes with the work of the server.</p>
      {read.error ? <Failure error={read.error} onRetry={() => void read.refetch()} /> : null}
      {start.error ? <Failure error={start.error} /> : null}
      {v && done && (
        <p className="small" role="status">
          {age(v.ended_at, now)}, in {duration(Date.parse(v.ended_at!) - Date.parse(v.started_at!))}: {plural(v.sessions, "session")}, {plural(v.events, "event")}, {plural(v.calls, "call")},{" "}
          {plural(v.tasks, "task")}, {plural(v.blobs, "blob")}, {v.audit_entries} entries of the audit log.
        </p>
      )}
      {v?.error && <p className="small tone-bad untrusted">{safe(v.error)}</p>}
      {v?.problems && v.problems.length > 0 && (
        <ul className="words bad">
          {v.problems.map((p) => (
            <li key={p} className="untrusted">
              {safe(p)}
            </li>
          ))}
        </ul>
      )}
      <div>
        <Button isDisabled={start.pending || v?.state === "running"} onPress={start.run}>
          Verify now
        </Button>
      </div>
      <Cli text="perdure admin verify" curl={{ method: "POST", path: "/v1/storage/verify", body: {} }} />
    </section>
  );
}
