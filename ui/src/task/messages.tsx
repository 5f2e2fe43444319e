import { useInfiniteQuery } from "@tanstack/react-query";
import { need, type Schemas } from "../../client";
import { api } from "../app/api";
import { usePaused } from "../app/hooks";
import { Button, Failure } from "../app/pieces";
import type { Task } from "../event/types";
import { clock, oneLine, pretty, safe } from "../text/text";
import { ended } from "./look";

type Message = Schemas["TaskMessage"];

// senderOf names the sender of a message to people: the user of a token, else the token itself.
export const senderOf = (by: string | undefined) => /^token_[0-9a-f]{32} (.+)$/s.exec(by ?? "")?.[1] ?? (by || "somebody");

// MessagesPart lists what was sent to the task and by it, with the sender of each message: several people
// may write to one task.
export function MessagesPart({ task }: { task: Task }) {
  const paused = usePaused();
  const read = useInfiniteQuery({
    queryKey: ["task-messages", task.id],
    queryFn: ({ pageParam, signal }) =>
      need(api.GET("/v1/tasks/{id}/messages", { signal, params: { path: { id: task.id }, query: { limit: 100, ...(pageParam ? { after: pageParam } : {}) } } })) as Promise<{ items: Message[] | null; next?: string }>,
    initialPageParam: "",
    getNextPageParam: (last) => last.next || undefined,
    refetchInterval: paused || ended(task.state) ? false : 2000,
  });
  const messages = read.data?.pages.flatMap((p) => p.items ?? []) ?? [];
  if (read.error && !read.data) return <Failure error={read.error} onRetry={() => void read.refetch()} />;
  return (
    <>
      <ol className="messages" aria-label="Messages of the task">
        {messages.map((m) => (
          <li key={m.id}>
            <span className="soft">{clock(m.created_at)}</span> <strong title={safe(m.by ?? "")}>{m.direction === "inbound" ? `${oneLine(senderOf(m.by), 80)} sent` : "the task sent"}</strong>
            {m.in_reply_to && <span className="soft"> as an answer</span>}
            <p className="untrusted" dir="auto">
              {m.text ? safe(m.text) : pretty(m.data)}
            </p>
          </li>
        ))}
      </ol>
      {messages.length === 0 && <p className="soft">{read.data ? "Nothing was sent to this task, or by it." : "Loading…"}</p>}
      {read.hasNextPage && <Button onPress={() => void read.fetchNextPage()}>Read more messages</Button>}
    </>
  );
}
