import { memo } from "react";
import { safe } from "../text/text";
import { CallCard } from "./card";
import type { AnswerEntry, Entry, MessageEntry, NoteEntry } from "./transcript";

// EntryView shows one entry. It is drawn again only when the entry was replaced.
export const EntryView = memo(function EntryView({ entry }: { entry: Entry }) {
  switch (entry.kind) {
    case "message":
      return <MessageView entry={entry} />;
    case "answer":
      return <AnswerView entry={entry} />;
    case "call":
      return <CallCard call={entry} />;
    case "note":
      return <NoteView entry={entry} />;
  }
});

function MessageView({ entry }: { entry: MessageEntry }) {
  const notification = entry.role === "notification";
  return (
    <div className={`bubble ${notification ? "notification" : "user"}`} tabIndex={notification ? 0 : undefined}>
      <p className="by">
        <span>{notification ? "Notification of the runtime" : "User"}</span>
        {entry.waiting && <span>· waits for the next safe point</span>}
      </p>
      <p className="untrusted" dir="auto">
        {safe(entry.text)}
      </p>
      {entry.images > 0 && <p className="soft small">{entry.images === 1 ? "1 image" : `${entry.images} images`}</p>}
    </div>
  );
}

function AnswerView({ entry }: { entry: AnswerEntry }) {
  if (entry.text === "" && entry.state !== "open") return null;
  return (
    <div className="bubble agent" data-state={entry.state}>
      <p className="by">
        <span>Agent</span>
        {entry.state === "interrupted" && <span>· broke off here</span>}
      </p>
      <p className={`untrusted ${entry.state === "open" ? "caret" : ""}`} dir="auto">
        {safe(entry.text)}
        {entry.text === "" && <span className="soft">{entry.thinking > 0 ? `thinking, ${entry.thinking} characters` : "waiting for the model"}</span>}
      </p>
    </div>
  );
}

function NoteView({ entry }: { entry: NoteEntry }) {
  return (
    <p className={`rule ${entry.tone}`}>
      <span>{safe(entry.text)}</span>
      {entry.detail && (
        <span className="untrusted" dir="auto">
          {entry.detail}
        </span>
      )}
    </p>
  );
}
