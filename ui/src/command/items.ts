import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { need } from "../../client";
import { api } from "../app/api";
import { useSettled } from "../app/hooks";
import { usePages } from "../app/pages";
import { useNewestApprovals } from "../approval/live";
import { useLiveList } from "../event/list";
import type { Session } from "../event/types";
import { sessionLook } from "../session/look";
import { useOpenTasks } from "../task/live";
import { taskLook } from "../task/look";
import { oneLine } from "../text/text";
import type { Found } from "./search";
import { verbs } from "./verbs";

// Target is something found: a page with an address, or a verb.
export type Target = Found & { to?: string; verb?: string };

const pauseMs = 150; // of typing, before the server is asked
const mostWords = 60; // characters that the server is asked for

// useTargets returns everything that can be found. The server finds sessions by their titles; agents and
// schedules beyond the newest are found by their ids.
export function useTargets(query: string): Target[] {
  const pages = usePages();
  const tasks = useOpenTasks();
  const approvals = useNewestApprovals();
  const live = useLiveList<Session>("sessions");
  const text = useSettled(query.trim().slice(0, mostWords), pauseMs);
  const read = useQuery({
    queryKey: ["sessions", "find", text],
    queryFn: ({ signal }) => need(api.GET("/v1/sessions", { signal, params: { query: { limit: 40, ...(text ? { text } : {}) } } })),
    placeholderData: keepPreviousData,
  });
  const agents = useQuery({ queryKey: ["agents"], queryFn: ({ signal }) => need(api.GET("/v1/agents", { signal, params: { query: { limit: 200 } } })) });
  const schedules = useQuery({ queryKey: ["schedules", "find"], queryFn: ({ signal }) => need(api.GET("/v1/schedules", { signal, params: { query: { limit: 200 } } })) });
  const has = (to: string) => pages.some((p) => p.to === to);
  const fixed = useMemo(() => verbs.map((v): Target => ({ id: v.verb, verb: v.verb, group: "Commands", title: v.verb, about: v.help, icon: "keys" })), []);
  const objects = useMemo(() => {
    const sessions = new Map((read.data?.items ?? []).map((s) => [s.id, s as Session]));
    live.forEach((s, id) => sessions.set(id, s));
    return [
      ...approvals.map((a): Target => ({ id: a.id, group: "Needs you", title: `Approve ${oneLine(a.tool, 60)}?`, about: a.session_id, icon: "hand", to: has("/approvals") ? "/approvals" : `/sessions/${a.session_id}` })),
      ...[...sessions.values()].map((s): Target => ({ id: s.id, group: "Sessions", title: oneLine(s.title || "Untitled", 100), about: `${sessionLook(s).word}${s.agent.name ? ` · ${oneLine(s.agent.name, 40)}` : ""}`, icon: "list", to: `/sessions/${s.id}` })),
      ...tasks.map((t): Target => ({ id: t.id, group: "Tasks", title: oneLine(t.display_name || t.tool, 100), about: taskLook(t.state).word, icon: "task", to: `/tasks/${t.id}`, words: t.tool })),
      ...(has("/schedules") ? (schedules.data?.items ?? []) : []).map((s): Target => ({ id: s.id, group: "Schedules", title: oneLine(s.title || s.id, 100), about: s.cron_expression ?? "", icon: "calendar", to: `/schedules/${s.id}` })),
      ...(has("/settings") ? (agents.data?.items ?? []) : []).map((a): Target => ({ id: a.id || a.name, group: "Agents", title: oneLine(a.name, 100), about: "agent", icon: "sliders", to: "/settings/agents" })),
    ];
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [approvals, live, read.data, tasks, schedules.data, agents.data, pages.length]);
  return useMemo(() => [...pages.map((p): Target => ({ id: p.to, group: "Pages", title: p.word, about: "page", icon: p.icon, to: p.to })), ...objects, ...byID(query), ...fixed], [pages, objects, query, fixed]);
}

// useKnown returns the ids that an argument of a verb may have, as far as the page knows them.
export function useKnown(): (arg: string) => { id: string; title: string }[] {
  const tasks = useOpenTasks();
  const approvals = useNewestApprovals();
  const live = useLiveList<Session>("sessions");
  return (arg) => {
    if (arg === "session") return [...live.values()].map((s) => ({ id: s.id, title: oneLine(s.title || "Untitled", 60) }));
    if (arg === "task" || arg === "id") return tasks.map((t) => ({ id: t.id, title: oneLine(t.display_name || t.tool, 60) }));
    if (arg === "approval") return approvals.map((a) => ({ id: a.id, title: oneLine(a.tool, 60) }));
    return [];
  };
}

// byID leads to something by its whole id, whether it is listed or not.
function byID(query: string): Target[] {
  const id = query.trim();
  const found = /^(session|task|schedule)_[A-Za-z0-9_-]+$/.exec(id);
  if (!found) return [];
  return [{ id: `open ${id}`, group: "By id", title: id, about: `open the ${found[1]}`, icon: "search", to: `/${found[1]}s/${id}` }];
}
