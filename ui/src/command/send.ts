import { RequestFailed } from "../../client";
import { server } from "../app/api";
import { safe } from "../text/text";

// Answer is what the server said, as text for people. cut: there is more.
export type Answer = { status: number; text: string; cut: boolean; ms: number };

const mostText = 200_000; // characters that are shown

// send sends a request, and returns its answer as text.
export async function send({ method, path, body }: { method: string; path: string; body?: unknown }): Promise<Answer> {
  const began = performance.now();
  let answer: Response;
  let text: string;
  try {
    answer = await fetch(server.href.replace(/\/$/, "") + path, {
      method,
      credentials: "same-origin",
      headers: {
        Accept: "application/json, */*;q=0.5",
        ...(method === "GET" ? {} : { "Idempotency-Key": crypto.randomUUID() }),
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    text = await answer.text();
  } catch {
    throw new RequestFailed(0, {});
  }
  const isJSON = /json/.test(answer.headers.get("Content-Type") ?? "");
  if (!answer.ok) throw new RequestFailed(answer.status, isJSON ? (JSON.parse(text) as object) : {});
  const shown = isJSON && text.length < 4 * mostText ? JSON.stringify(JSON.parse(text), null, 2) : text;
  return { status: answer.status, text: safe(shown.slice(0, mostText)), cut: shown.length > mostText, ms: Math.round(performance.now() - began) };
}
