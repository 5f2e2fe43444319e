import { memo } from "react";
import { oneLine, safe } from "../text/text";
import type { CostLine } from "../cost/money";
import { CallCard } from "./card";
import { Cost } from "./figures";
import { Images } from "./image";
import { Markdown } from "../text/markdown";
import { useText, type Texts } from "./texts";
import type { AnswerEntry, Entry, MessageEntry, NoteEntry } from "./transcript";

// EntryView shows one entry. It is drawn again only when the entry was replaced.
export const EntryView = memo(function EntryView({ entry, session, texts, cost }: { entry: Entry; session: string; texts: Texts; cost: CostLine | undefined }) {
  switch (entry.kind) {
    case "message":
      return <MessageView entry={entry} session={session} />;
    case "answer":
      return <AnswerView entry={entry} texts={texts} />;
    case "call":
      return <CallCard call={entry} session={session} texts={texts} />;
    case "note":
      return <NoteView entry={entry} cost={cost} />;
  }
});

function MessageView({ entry, session }: { entry: MessageEntry; session: string }) {
  const notification = entry.role === "notification";
  return (
    <div className={`bubble ${notification ? "notification" : "user"}`} tabIndex={notification ? 0 : undefined}>
      <p className="by">
        <span>{notification ? "Notification of the runtime" : entry.by && entry.by !== "user" ? `User · sent by ${oneLine(entry.by, 60)}` : "User"}</span>
        {entry.waiting && <span>· waits for the next safe point</span>}
      </p>
      <p className="untrusted" dir="auto">
        {safe(entry.text)}
      </p>
      <Images session={session} images={entry.images} />
    </div>
  );
}

function AnswerView({ entry, texts }: { entry: AnswerEntry; texts: Texts }) {
  if (entry.text === "" && entry.state !== "open") return null;
  return (
    <div className="bubble agent" data-state={entry.state}>
      <p className="by">
        <span>Agent</span>
        {entry.state === "interrupted" && <span>· broke off here</span>}
      </p>
      {entry.state === "complete" ? (
        <Markdown text={entry.text} />
      ) : (
        <p className={`untrusted ${entry.state === "open" ? "caret" : ""}`} dir="auto">
          {entry.state === "open" ? <OpenText entry={entry} texts={texts} /> : safe(entry.text)}
        </p>
      )}
    </div>
  );
}

// OpenText shows the answer that streams.
function OpenText({ entry, texts }: { entry: AnswerEntry; texts: Texts }) {
  const text = useText(texts, entry.id);
  if (text !== "") return safe(text);
  return <span className="soft">{entry.thinking > 0 ? `thinking, ${entry.thinking} characters` : "waiting for the model"}</span>;
}

// NoteView shows a note. The note of a turn that has ended has its cost.
function NoteView({ entry, cost }: { entry: NoteEntry; cost: CostLine | undefined }) {
  return (
    <p className={`rule ${entry.tone}`}>
      <span>
        {safe(entry.text)}
        {cost && (Object.keys(cost.cost).length > 0 || cost.unpriced > 0) && (
          <>
            {" · "}
            <Cost line={cost} />
          </>
        )}
      </span>
      {entry.detail && (
        <span className="untrusted" dir="auto">
          {entry.detail}
        </span>
      )}
    </p>
  );
}
