import { QueryCache, QueryClient } from "@tanstack/react-query";
import { newClient, RequestFailed } from "../../client";
import { EventStream } from "../event/stream";
import { learnTime } from "./clock";

// root is the address of the UI, and server that of everything, both with a trailing slash. The server
// puts the first one into the page, so that the UI works below any path prefix.
export const root = new URL("./", document.baseURI);
export const server = new URL("../", root);

export const api = newClient({ baseUrl: server.href.replace(/\/$/, "") });
api.use({ onResponse: ({ response }) => learnTime(response) });

// refused reports whether an error says that nobody is signed in.
export const refused = (err: unknown) => err instanceof RequestFailed && err.status === 401;

// queries is the cache of everything that the server said. A request is repeated only where no answer
// came, as during a restart of the server.
export const queries: QueryClient = new QueryClient({
  queryCache: new QueryCache({
    onError: (err, query) => {
      if (refused(err) && query.queryKey[0] !== "principal") void queries.invalidateQueries({ queryKey: ["principal"] });
    },
  }),
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      refetchOnWindowFocus: false,
      networkMode: "always",
      retry: (n, err) => n < 4 && err instanceof RequestFailed && (err.status === 0 || err.status >= 502),
      retryDelay: (n) => Math.min(500 * 2 ** n, 4000),
    },
    mutations: { networkMode: "always" },
  },
});

// stream is the one event stream of this page.
export const stream = new EventStream(server.href, (status) => {
  if (status === 401) void queries.invalidateQueries({ queryKey: ["principal"] });
  if (status === 404) void queries.invalidateQueries({ queryKey: ["session"] }); // it was deleted
});
