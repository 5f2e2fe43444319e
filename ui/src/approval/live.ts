import { useMemo } from "react";
import { useLiveList } from "../event/list";
import type { Approval } from "../event/types";

// useOpenApprovals returns the calls that wait for a decision.
export function useOpenApprovals(): Approval[] {
  const rows = useLiveList<Approval>("approvals");
  return useMemo(() => [...rows.values()], [rows]);
}
