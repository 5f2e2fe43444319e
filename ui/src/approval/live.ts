import { useMemo } from "react";
import { useLiveList } from "../event/list";
import type { Approval } from "../event/types";

// useNewestApprovals returns the newest calls that wait for a decision, which the stream has.
export function useNewestApprovals(): Approval[] {
  const rows = useLiveList<Approval>("approvals");
  return useMemo(() => [...rows.values()], [rows]);
}

// useOpenCount returns how many calls wait for a decision.
export function useOpenCount(): number {
  const newest = useLiveList<Approval>("approvals").size;
  return useLiveList<{ id: string; approvals: number }>("work").get("work")?.approvals ?? newest;
}
