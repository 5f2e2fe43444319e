import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useEffect, useState } from "react";
import { need } from "../../client";
import { api } from "../app/api";
import { serverNow } from "../app/clock";
import { useConnection } from "../app/hooks";
import type { Recovery } from "./words";

const shownFor = 24 * 3_600_000;
const hidden = "hidden recovery";

// useRecovery returns the latest recovery. It is read when the stream is live again, which is when there
// may be a new one, and a few times after that, while sessions are still being resumed.
function useRecovery(): Recovery | undefined {
  const { state } = useConnection();
  const read = useQuery({
    queryKey: ["recoveries"],
    queryFn: ({ signal }) => need(api.GET("/v1/recoveries", { signal })) as Promise<{ items: Recovery[] }>,
    staleTime: 30_000,
    refetchInterval: state === "live" ? 10_000 : false,
  });
  const { refetch } = read;
  useEffect(() => {
    if (state === "live") void refetch();
  }, [state, refetch]);
  return read.data?.items[0];
}

const Report = lazy(async () => ({ default: (await import("./report")).Report }));

// Ribbon says what crash recovery did, on the pages of sessions and tasks, until a person hides it.
export function Ribbon() {
  const r = useRecovery();
  const [gone, setGone] = useState(() => sessionStorage.getItem(hidden) ?? "");
  if (!r || gone === r.started_at || serverNow() - Date.parse(r.started_at) > shownFor) return null;
  const hide = () => {
    sessionStorage.setItem(hidden, r.started_at);
    setGone(r.started_at);
  };
  return (
    <Suspense>
      <Report recovery={r} onHide={hide} />
    </Suspense>
  );
}
