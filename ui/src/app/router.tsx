import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { root } from "./api";
import { NotFound } from "./notfound";
import { Failure } from "./pieces";
import { Shell } from "./shell";

// newRouter returns the routes. The address holds filter, tab and selection.
export function newRouter(linkError: unknown) {
  const top = createRootRoute({ component: () => <Shell linkError={linkError} /> });
  const index = createRoute({
    getParentRoute: () => top,
    path: "/",
    beforeLoad: () => {
      throw redirect({ to: "/sessions", search: {} });
    },
  });
  const sessions = createRoute({
    getParentRoute: () => top,
    path: "/sessions",
    validateSearch: (s: Record<string, unknown>): { state?: string } => (typeof s.state === "string" ? { state: s.state } : {}),
    component: lazyRouteComponent(() => import("../session/list"), "SessionList"),
  });
  const session = createRoute({
    getParentRoute: () => top,
    path: "/sessions/$id",
    component: lazyRouteComponent(() => import("../session/page"), "SessionPage"),
  });
  const tasks = createRoute({
    getParentRoute: () => top,
    path: "/tasks",
    validateSearch: (s: Record<string, unknown>): { tab?: string; q?: string } => ({ ...(typeof s.tab === "string" ? { tab: s.tab } : {}), ...(typeof s.q === "string" ? { q: s.q } : {}) }),
    component: lazyRouteComponent(() => import("../task/list"), "TaskList"),
  });
  const task = createRoute({
    getParentRoute: () => top,
    path: "/tasks/$id",
    validateSearch: (s: Record<string, unknown>): { tab?: string; seq?: number } => ({ ...(typeof s.tab === "string" ? { tab: s.tab } : {}), ...(Number.isSafeInteger(Number(s.seq)) && s.seq !== undefined ? { seq: Number(s.seq) } : {}) }),
    component: lazyRouteComponent(() => import("../task/page"), "TaskPage"),
  });
  return createRouter({
    routeTree: top.addChildren([index, sessions, session, tasks, task]),
    basepath: root.pathname.replace(/\/$/, ""),
    defaultNotFoundComponent: () => <NotFound what="page" />,
    defaultErrorComponent: ({ error, reset }) => (
      <div className="center">
        <Failure error={error} onRetry={reset} />
      </div>
    ),
    defaultPreload: "intent",
    scrollRestoration: false,
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof newRouter>;
  }
}
