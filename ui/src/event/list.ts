import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { queries, stream } from "../app/api";
import { serverNow } from "../app/clock";
import type { Live } from "../list/pages";
import type { Change, Frame } from "./types";

type Named = { id: string };

// useLiveList follows a list of the stream. Its rows are in the query cache, by id, in the order of the
// server.
export function useLiveList<T extends Named>(name: "sessions" | "tasks" | "approvals" | "schedules" | "work"): Map<string, T> {
  useEffect(() => stream.follow({ name, onFrame: (f) => applyTo<T>(name, f) }), [name]);
  const { data } = useQuery<Map<string, T>>({ queryKey: ["live", name], queryFn: () => new Map(), staleTime: Infinity, gcTime: Infinity, enabled: false });
  return data ?? (empty as Map<string, T>);
}

const empty = new Map<string, never>();

// liveRows is how many rows of a list the stream sends at most, the newest ones.
export const liveRows = 200;

const arrived = new WeakMap<object, number>(); // when rows came, by the clock of the server

// liveOf returns the rows of a list that useLiveList follows, and when they arrived.
export function liveOf<T>(rows: ReadonlyMap<string, T>): Live<T> {
  return { rows: (rows as unknown) === empty ? undefined : rows, most: liveRows, at: arrived.get(rows) ?? 0 };
}

function applyTo<T extends Named>(name: string, frame: Frame) {
  const change = frame.data as Change<T>;
  queries.setQueryData<Map<string, T>>(["live", name], (before) => {
    const rows = new Map<string, T>(frame.type === "changed" ? before : undefined);
    change.items.forEach((item) => rows.set(item.id, item));
    change.gone.forEach((id) => rows.delete(id));
    arrived.set(rows, serverNow());
    return rows;
  });
}
