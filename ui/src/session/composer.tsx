import { useMutation } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { need } from "../../client";
import { api } from "../app/api";
import { Button, Failure } from "../app/pieces";
import { useMay } from "../principal/principal";

type Mode = "queue" | "steer" | "interrupt";

const modes: { mode: Mode; word: string; about: string }[] = [
  { mode: "queue", word: "Queue", about: "after this turn" },
  { mode: "steer", word: "Steer", about: "at the next safe point" },
  { mode: "interrupt", word: "Interrupt", about: "end this turn first" },
];

// newMessageID makes the id of a message, so that a message that is sent again is the same message.
function newMessageID(): string {
  return "message_" + crypto.randomUUID().replaceAll("-", "");
}

// Composer sends messages. While a turn runs, it asks what the message does to it.
export function Composer({ session, busy }: { session: string; busy: boolean }) {
  const { may, why } = useMay("write");
  const [text, setText] = useState(() => sessionStorage.getItem(`draft ${session}`) ?? "");
  const [mode, setMode] = useState<Mode>("queue");
  const pending = useRef<{ id: string; text: string }>(undefined);
  const write = (value: string) => {
    setText(value);
    if (value) sessionStorage.setItem(`draft ${session}`, value);
    else sessionStorage.removeItem(`draft ${session}`);
  };
  const send = useMutation({
    mutationFn: async (words: string) => {
      if (pending.current?.text !== words) pending.current = { id: newMessageID(), text: words };
      await need(
        api.POST("/v1/sessions/{id}/messages", {
          params: { path: { id: session } },
          body: { id: pending.current.id, content: [{ type: "text", text: words }], ...(busy ? { mode } : {}) },
        } as never),
      );
    },
    onSuccess: () => {
      pending.current = undefined;
      write("");
    },
  });
  if (!may) return <p className="composer soft">You can read this session. {why}</p>;
  const submit = () => {
    if (text.trim() && !send.isPending) send.mutate(text);
  };
  return (
    <div className="composer">
      <form
        onSubmit={(e) => {
          e.preventDefault();
          submit();
        }}
      >
        <textarea
          className="field"
          aria-label="Message"
          placeholder={busy ? "Message the agent while it works" : "Message the agent"}
          rows={1}
          dir="auto"
          value={text}
          onChange={(e) => write(e.target.value)}
          onKeyDown={(e) => {
            if (e.key === "Enter" && !e.shiftKey && !e.nativeEvent.isComposing) {
              e.preventDefault();
              submit();
            }
          }}
        />
        <Button type="submit" look="first" isDisabled={!text.trim() || send.isPending}>
          {send.isPending ? "Sending…" : "Send"}
        </Button>
        <div className="hint">
          {busy ? (
            <fieldset>
              <legend className="visually-hidden">What the message does to the running turn</legend>
              {modes.map((m) => (
                <label key={m.mode} className="choice">
                  <input type="radio" name="mode" checked={mode === m.mode} onChange={() => setMode(m.mode)} />
                  <span>
                    {m.word} <span className="soft">({m.about})</span>
                  </span>
                </label>
              ))}
            </fieldset>
          ) : (
            <span>Enter sends, Shift+Enter begins a new line</span>
          )}
        </div>
      </form>
      {send.error && <Failure error={send.error} onRetry={submit} />}
    </div>
  );
}
