// A typed client of the HTTP API. schema.d.ts is generated from docs/reference/openapi.json.
import createClient, { type Middleware } from "openapi-fetch";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

// Problem is an error of the API (RFC 9457).
export type Problem = Schemas["Problem"];

// RequestFailed is thrown for a response that is an error, or for none at all (status 0).
export class RequestFailed extends Error {
  constructor(
    readonly status: number,
    readonly problem: Partial<Problem>,
  ) {
    super(problem.detail || problem.title || "The server does not answer.");
    this.name = "RequestFailed";
  }
}

// Options of a client. Without a token, the requests have the cookies of the page.
export type Options = { baseUrl: string; token?: string };

// newClient returns a client. Each write has an idempotency key of its own, so that the browser may
// repeat the request.
export function newClient(options: Options) {
  const api = createClient<paths>({ baseUrl: options.baseUrl, credentials: "same-origin" });
  const headers: Middleware = {
    onRequest({ request }) {
      if (options.token) request.headers.set("Authorization", `Bearer ${options.token}`);
      if (request.method !== "GET" && !request.headers.has("Idempotency-Key")) {
        request.headers.set("Idempotency-Key", crypto.randomUUID());
      }
    },
  };
  api.use(headers);
  return api;
}

// need returns the data of a response, or throws RequestFailed.
export async function need<T>(answer: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  let got;
  try {
    got = await answer;
  } catch (err) {
    if (err instanceof DOMException && err.name === "AbortError") throw err;
    throw new RequestFailed(0, {});
  }
  if (!got.response.ok) {
    throw new RequestFailed(got.response.status, (got.error ?? {}) as Partial<Problem>);
  }
  return got.data as T;
}
