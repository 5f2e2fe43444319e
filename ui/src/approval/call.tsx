import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { RequestFailed } from "../../client";
import { server } from "../app/api";
import { Button, Failure } from "../app/pieces";
import { diff, type Line } from "../text/diff";
import { indented, visible } from "../text/exact";
import { safe } from "../text/text";
import { fileChange, type Change } from "./file";
import { hosts } from "./order";
import type { Exact } from "./read";

// ExactCall shows what would run: what it does to a file, where it goes, the command, and the exact
// arguments.
export function ExactCall({ exact }: { exact: Exact }) {
  const { approval, args } = exact;
  const [raw, setRaw] = useState(false);
  const file = useMemo(() => fileChange(approval.tool, approval.args), [approval]);
  const to = useMemo(() => hosts(approval.args), [approval]);
  const command = approval.tool === "bash" ? (approval.args as { command?: unknown } | undefined)?.command : undefined;
  return (
    <>
      {to.length > 0 && (
        <p>
          Goes to{" "}
          {to.map((h, i) => (
            <span key={h}>
              {i > 0 && ", "}
              <strong className="mono">{safe(h)}</strong>
            </span>
          ))}
        </p>
      )}
      {file && <FileDiff session={approval.session_id} change={file} open={approval.state === "open"} />}
      {typeof command === "string" && (
        <div>
          <h3>Command{command.length > 600 && ` · ${command.length.toLocaleString("en")} characters, all of them below`}</h3>
          <Whole text={visible(command)} label="Command" />
        </div>
      )}
      <div>
        <div className="row-of between">
          <h3>Exact arguments</h3>
          <span className="row-of" role="group" aria-label="How the arguments are shown">
            <Button look="bare" aria-pressed={!raw} onPress={() => setRaw(false)}>
              Indented
            </Button>
            <Button look="bare" aria-pressed={raw} onPress={() => setRaw(true)}>
              Raw
            </Button>
          </span>
        </div>
        <Whole text={raw ? visible(args) : indented(args)} label="Exact arguments" />
      </div>
    </>
  );
}

const mostChars = 100_000; // that are shown at once

// Whole shows a text that a person decides about: all of it, since what is not shown would be approved
// unseen.
function Whole({ text, label }: { text: string; label: string }) {
  const [all, setAll] = useState(false);
  const long = text.length > mostChars && !all;
  return (
    <>
      <pre className="code" dir="ltr" tabIndex={0} role="region" aria-label={label}>
        {long ? text.slice(0, mostChars) + "…" : text || "(none)"}
      </pre>
      {long && (
        <p className="tone-warn small">
          {(text.length - mostChars).toLocaleString()} more characters.{" "}
          <Button look="bare" onPress={() => setAll(true)}>
            Show all
          </Button>
        </p>
      )}
    </>
  );
}

const largest = 256 << 10; // bytes of a file that is compared

async function readFile(session: string, path: string, signal: AbortSignal): Promise<string | undefined> {
  const name = path.replace(/^\/+/, "").split("/").map(encodeURIComponent).join("/");
  const answer = await fetch(new URL(`v1/sessions/${encodeURIComponent(session)}/files/${name}`, server), { credentials: "same-origin", cache: "no-store", signal });
  if (answer.status === 404) return undefined;
  if (!answer.ok) throw new RequestFailed(answer.status, (await answer.json().catch(() => ({}))) as object);
  const bytes = await answer.arrayBuffer();
  if (bytes.byteLength > largest) throw new Error("The file is too large to compare here.");
  return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
}

// FileDiff compares the file as it is now with what the call would make of it.
function FileDiff({ session, change, open }: { session: string; change: Change; open: boolean }) {
  const now = useQuery({
    queryKey: ["file", session, change.path],
    queryFn: async ({ signal }) => ({ text: await readFile(session, change.path, signal) }),
    enabled: open,
    staleTime: 0,
    retry: false,
  });
  const lines = useMemo(() => {
    if (!now.data) return undefined;
    const after = change.after(now.data.text);
    return { lines: diff(now.data.text ?? "", after.text), note: after.note };
  }, [now.data, change]);
  if (!open) return null; // the file is not any more what it was before the call
  return (
    <div>
      <h3>
        {heading(change, now.data?.text === undefined && !!now.data)} <code>{visible(change.path)}</code>
      </h3>
      {now.error ? (
        now.error instanceof RequestFailed ? (
          <Failure error={now.error} />
        ) : (
          <p className="small soft">{now.error instanceof TypeError ? "The file is no text, so it cannot be compared here." : now.error.message}</p>
        )
      ) : (
        <>
          {lines?.note && <p className="tone-warn small">{lines.note}</p>}
          {lines ? <Lines lines={lines.lines} /> : <p className="soft small">Reading the file…</p>}
        </>
      )}
    </div>
  );
}

const words = { same: "", old: "removed", new: "added", skip: "" };
const signs = { same: " ", old: "−", new: "+", skip: "" };
const mostLines = 400;

function Lines({ lines }: { lines: Line[] }) {
  const [all, setAll] = useState(false);
  const added = lines.filter((l) => l.kind === "new").length;
  const removed = lines.filter((l) => l.kind === "old").length;
  const shown = all ? lines : lines.slice(0, mostLines);
  return (
    <>
      <p className="small">
        <span className="tone-good">+{added} added</span> · <span className="tone-bad">−{removed} removed</span>
      </p>
      {added + removed > 0 && (
        <div className="code diff" tabIndex={0} role="region" aria-label="Difference">
          {shown.map((l, i) =>
            l.kind === "skip" ? (
              <div key={i} className="skip-lines">
                {l.count} equal lines
              </div>
            ) : (
              <div key={i} className={l.kind} data-kind={l.kind}>
                <span className="sign" aria-hidden="true">
                  {signs[l.kind]}
                </span>
                {words[l.kind] && <span className="visually-hidden">{words[l.kind]}: </span>}
                <span>{visible(l.text) || " "}</span>
              </div>
            ),
          )}
        </div>
      )}
      {shown.length < lines.length && (
        <Button look="bare" onPress={() => setAll(true)}>
          Show all {lines.length.toLocaleString()} lines
        </Button>
      )}
    </>
  );
}

// heading says what a call would do to a file, which may not exist.
function heading(change: Change, missing: boolean): string {
  if (change.deletes) return missing ? "There is no file" : "Deletes";
  return missing ? "New file" : "Change of";
}
