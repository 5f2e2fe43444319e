import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import { root } from "./api";
import { Failure } from "./pieces";
import { Shell } from "./shell";
import { readSearch } from "../event/filter";
import { readTimeline } from "../timeline/search";

const NotFound = lazy(async () => ({ default: (await import("./notfound")).NotFound }));

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
    validateSearch: (s: Record<string, unknown>): { state?: string; q?: string } => texts(s, "state", "q"),
    component: lazyRouteComponent(() => import("../session/list"), "SessionList"),
  });
  const session = createRoute({
    getParentRoute: () => top,
    path: "/sessions/$id",
    validateSearch: (s: Record<string, unknown>): { pane?: "files" | "values" | "secrets" | "denied" } => {
      const pane = (["files", "values", "secrets", "denied"] as const).find((p) => p === s.pane);
      return pane ? { pane } : {};
    },
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
  const schedules = createRoute({
    getParentRoute: () => top,
    path: "/schedules",
    validateSearch: (s: Record<string, unknown>): { state?: string } => texts(s, "state"),
    component: lazyRouteComponent(() => import("../schedule/list"), "ScheduleList"),
  });
  const newSchedule = createRoute({
    getParentRoute: () => top,
    path: "/schedules/new",
    validateSearch: (s: Record<string, unknown>): { session?: string } => texts(s, "session"),
    component: lazyRouteComponent(() => import("../schedule/new"), "NewSchedule"),
  });
  const schedule = createRoute({
    getParentRoute: () => top,
    path: "/schedules/$id",
    component: lazyRouteComponent(() => import("../schedule/page"), "SchedulePage"),
  });
  const costs = createRoute({
    getParentRoute: () => top,
    path: "/costs",
    validateSearch: (s: Record<string, unknown>): { month?: string; group?: string; split?: string; metric?: string; budget?: string } => texts(s, "month", "group", "split", "metric", "budget"),
    component: lazyRouteComponent(() => import("../cost/page"), "CostPage"),
  });
  const settingsIndex = createRoute({
    getParentRoute: () => top,
    path: "/settings",
    component: lazyRouteComponent(() => import("../settings/page"), "SettingsIndex"),
  });
  const settings = createRoute({
    getParentRoute: () => top,
    path: "/settings/$section",
    validateSearch: (s: Record<string, unknown>) => textsOf(s, "item", "q", "session"),
    component: lazyRouteComponent(() => import("../settings/page"), "SettingsPage"),
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
  const approvals = createRoute({
    getParentRoute: () => top,
    path: "/approvals",
    validateSearch: (s: Record<string, unknown>): { tab?: string; id?: string } => texts(s, "tab", "id"),
    component: lazyRouteComponent(() => import("../approval/page"), "ApprovalsPage"),
  });
  return createRouter({
    routeTree: top.addChildren([index, sessions, session, tasks, task, schedules, newSchedule, schedule, costs, settingsIndex, settings, events, journal, timeline, sessionTimeline, approvals]),
    basepath: root.pathname.replace(/\/$/, ""),
    defaultNotFoundComponent: () => (
      <Suspense>
        <NotFound what="page" />
      </Suspense>
    ),
    defaultErrorComponent: ({ error, reset }) => (
      <div className="center">
        <Failure error={error} onRetry={reset} />
      </div>
    ),
    defaultPreload: "intent",
    scrollRestoration: false,
  });
}

// texts returns the named parameters of an address that are texts.
function texts(s: Record<string, unknown>, ...names: string[]): Record<string, string> {
  return Object.fromEntries(names.flatMap((n) => (typeof s[n] === "string" ? [[n, s[n]]] : [])));
}

// textsOf returns the named texts of an address.
function textsOf<K extends string>(search: Record<string, unknown>, ...names: K[]): { [k in K]?: string } {
  return Object.fromEntries(names.flatMap((n) => (search[n] !== undefined ? [[n, String(search[n])]] : []))) as { [k in K]?: string };
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof newRouter>;
  }
}
