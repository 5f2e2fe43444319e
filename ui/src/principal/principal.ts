import { useQuery } from "@tanstack/react-query";
import { need, type Schemas } from "../../client";
import { api, queries, root, stream } from "../app/api";
import { RequestFailed } from "../../client";

export type Scope = "read" | "write" | "approve" | "admin";

// usePrincipal returns who is signed in. An error 401 means: nobody.
export function usePrincipal() {
  return useQuery({
    queryKey: ["principal"],
    queryFn: ({ signal }) => need<Schemas["Principal"]>(api.GET("/v1/principal", { signal })),
    staleTime: 60_000,
  });
}

// useMay reports whether the person has a scope, and says why not.
export function useMay(scope: Scope): { may: boolean; why: string } {
  const { data } = usePrincipal();
  if (!data || data.scopes.includes(scope)) return { may: true, why: "" };
  if (data.agent && (scope === "approve" || scope === "admin")) return { may: false, why: "Your token belongs to an agent, and only people may do this." };
  return { may: false, why: `Your token "${data.name}" does not have the scope ${scope}.` };
}

// others are the other pages of this browser, which share the cookie. They follow a sign-in and a
// sign-out at once.
const others = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel(`perdure ${root.pathname}`);
if (others) {
  others.onmessage = () => {
    queries.removeQueries({ predicate: (q) => q.queryKey[0] !== "principal" && q.getObserversCount() === 0 });
    void queries.resetQueries();
    stream.retry();
  };
}

// signIn gives a token, or the code of a one-time link, to the server, which answers with a cookie.
export async function signIn(with_: { token: string } | { link: string }) {
  await session("POST", with_);
  await queries.resetQueries();
  stream.retry();
  others?.postMessage("in");
}

// signOut ends the sign-in of this browser.
export async function signOut() {
  await session("DELETE");
  others?.postMessage("out");
  stream.retry();
  queries.clear();
  await queries.invalidateQueries({ queryKey: ["principal"] });
  location.assign(root.href);
}

async function session(method: string, body?: object) {
  let answer: Response;
  try {
    answer = await fetch(new URL("session", root), {
      method,
      credentials: "same-origin",
      headers: { "Content-Type": "application/json" },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
  } catch {
    throw new RequestFailed(0, {});
  }
  if (!answer.ok) throw new RequestFailed(answer.status, (await answer.json().catch(() => ({}))) as object);
}

// takeLink uses the code of a one-time link in the address, and removes it from the address.
export async function takeLink(): Promise<unknown> {
  const code = new URLSearchParams(location.hash.slice(1)).get("link");
  if (!code) return undefined;
  history.replaceState(null, "", location.pathname + location.search);
  try {
    await signIn({ link: code });
  } catch (err) {
    return err;
  }
  return undefined;
}
