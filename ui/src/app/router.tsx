import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { root } from "./api";
import { NotFound } from "./notfound";
import { Failure } from "./pieces";
import { Shell } from "./shell";
import { readSearch } from "../event/filter";
import { readTimeline } from "../timeline/search";

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
    validateSearch: (s: Record<string, unknown>): { tab?: string } => (typeof s.tab === "string" ? { tab: s.tab } : {}),
    component: lazyRouteComponent(() => import("../task/list"), "TaskList"),
  });
  const task = createRoute({
    getParentRoute: () => top,
    path: "/tasks/$id",
    component: lazyRouteComponent(() => import("../task/page"), "TaskPage"),
  });
  const events = createRoute({
    getParentRoute: () => top,
    path: "/events",
    component: lazyRouteComponent(() => import("../event/choose"), "ChooseJournal"),
  });
  const journal = createRoute({
    getParentRoute: () => top,
    path: "/sessions/$id/events",
    validateSearch: readSearch,
    component: lazyRouteComponent(() => import("../event/page"), "EventsPage"),
  });
  const timeline = createRoute({
    getParentRoute: () => top,
    path: "/timeline",
    validateSearch: readTimeline,
    component: lazyRouteComponent(() => import("../timeline/all"), "TimelineOfAll"),
  });
  const sessionTimeline = createRoute({
    getParentRoute: () => top,
    path: "/sessions/$id/timeline",
    validateSearch: readTimeline,
    component: lazyRouteComponent(() => import("../timeline/page"), "TimelinePage"),
  });
  return createRouter({
    routeTree: top.addChildren([index, sessions, session, tasks, task, events, journal, timeline, sessionTimeline]),
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
