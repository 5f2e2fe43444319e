import { Outlet, useLocation, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useEffect, useRef, useState } from "react";
import { SignIn } from "../principal/signin";
import { usePrincipal } from "../principal/principal";
import { refused, stream } from "./api";
import { FindContext } from "./find";
import { useKeys, type Keys } from "./keys";
import { usePages } from "./pages";
import { Failure } from "./pieces";
import { Rail } from "./rail";
import { Top } from "./top";

const KeyList = lazy(async () => ({ default: (await import("./keylist")).KeyList }));
const Palette = lazy(async () => ({ default: (await import("../command/palette")).Palette }));

// Shell is what all pages have in common. A person who is not signed in gets the sign-in, at the same
// address, so that a deep link still leads to its page afterwards.
export function Shell({ linkError }: { linkError?: unknown }) {
  const me = usePrincipal();
  if (refused(me.error)) return <SignIn linkError={linkError} />;
  if (!me.data) {
    return <div className="center">{me.error ? <Failure error={me.error} onRetry={() => void me.refetch()} /> : <p role="status">Loading…</p>}</div>;
  }
  return <Frame name={me.data.name} />;
}

type Open = { what: "find"; text: string } | { what: "keys" } | undefined;

function Frame({ name }: { name: string }) {
  const main = useRef<HTMLElement>(null);
  const { pathname } = useLocation();
  const first = useRef(true);
  const [open, setOpen] = useState<Open>();
  const find = useCallback((text = "") => setOpen({ what: "find", text }), []);
  const keys = useCallback(() => setOpen({ what: "keys" }), []);
  const close = useCallback(() => setOpen(undefined), []);
  useEffect(() => {
    if (!first.current) main.current?.focus();
    first.current = false;
  }, [pathname]);
  useShellKeys(find, keys);
  return (
    <FindContext value={find}>
      <div className="shell">
        <a className="skip" href="#main" onClick={(e) => (e.preventDefault(), main.current?.focus())}>
          Skip to the content
        </a>
        <Top />
        <Rail name={name} onKeys={keys} />
        <main className="main" id="main" ref={main} tabIndex={-1}>
          <Outlet />
        </main>
      </div>
      <Suspense>
        {open?.what === "find" && <Palette text={open.text} onClose={close} />}
        {open?.what === "keys" && <KeyList onClose={close} />}
      </Suspense>
    </FindContext>
  );
}

// useShellKeys has the shortcuts of every page.
function useShellKeys(find: () => void, list: () => void) {
  const navigate = useNavigate();
  const keys: Keys = {
    "ctrl+k": { about: "Search, or run a command", run: () => find() },
    "/": { about: "Search, or run a command", run: () => find() },
    p: { about: "Pause or resume live updates", run: () => stream.pause(stream.connection().state !== "paused") },
    "?": { about: "This list", run: list },
  };
  for (const p of usePages()) keys[`g ${p.key}`] = { about: p.word, run: () => void navigate({ to: p.to as "/sessions", search: {} as never }) };
  useKeys("Every page", keys);
}
