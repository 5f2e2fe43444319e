import { useMemo } from "react";
import { useLiveList } from "../event/list";
import type { Task } from "../event/types";

// useOpenTasks returns the tasks that have not ended, or whose outcome is unknown.
export function useOpenTasks(): Task[] {
  const rows = useLiveList<Task>("tasks");
  return useMemo(() => [...rows.values()], [rows]);
}
