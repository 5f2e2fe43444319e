import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { State } from "../app/icon";
import { Button } from "../app/pieces";
import { approvalLook } from "../approval/look";
import { duration, oneLine, pretty, safe } from "../text/text";
import { Images } from "./image";
import { classWords } from "./look";
import type { CallEntry } from "./transcript";

const shortChars = 2000; // of a long text, until more is asked for

// Details shows the exact arguments and the result of a call.
export function Details({ call, session }: { call: CallEntry; session: string }) {
  return (
    <>
      <h3>Arguments</h3>
      <LongText text={pretty(call.args)} label="Arguments" />
      {call.approval && call.approval.state !== "open" && (
        <p className="row-of small">
          <State look={approvalLook(call.approval.state)} />
          <span>
            {call.approval.decided_by && `by ${oneLine(call.approval.decided_by, 60)}`}
            {call.approval.note && `: “${oneLine(call.approval.note, 300)}”`}
          </span>
          <Link to="/approvals" search={{ tab: "decided", id: call.approval.id }}>
            The decision
          </Link>
        </p>
      )}
      {call.result && (
        <>
          <h3>
            {call.result.error ? "Error" : "Result"} {call.result.untrusted && <span className="tone-warn">· from outside, not trusted</span>}
          </h3>
          {call.result.error && <LongText text={safe(call.result.error)} label="Error" />}
          {call.result.result !== undefined && <LongText text={pretty(call.result.result)} label="Result" />}
          <Images session={session} images={call.result.images ?? []} />
        </>
      )}
      <p className="soft small">
        {call.class && `${classWords[call.class] ?? call.class} · `}
        {call.lane && `${call.lane} lane · `}
        {call.executions > 1 && `started ${call.executions} times · `}
        {call.durationMs > 0 && `${duration(call.durationMs)} · `}
        <span className="mono">{call.id}</span>
      </p>
    </>
  );
}

// LongText shows the beginning of a long text, and the rest on demand.
export function LongText({ text, label }: { text: string; label: string }) {
  const [all, setAll] = useState(false);
  const long = text.length > shortChars && !all;
  return (
    <>
      <pre className="code" dir="auto" tabIndex={0} aria-label={label}>
        {long ? text.slice(0, shortChars) + "…" : text || "(empty)"}
      </pre>
      {long && (
        <span>
          <Button look="bare" onPress={() => setAll(true)}>
            Show all {text.length.toLocaleString()} characters
          </Button>
        </span>
      )}
    </>
  );
}
