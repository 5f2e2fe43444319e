import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { need } from "../../client";
import { api } from "../app/api";
import { serverNow } from "../app/clock";
import { useConnection } from "../app/hooks";
import { Icon } from "../app/icon";
import { Button } from "../app/pieces";
import "./ribbon.css";
import { headline, reasons, type Recovery } from "./words";

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

// Ribbon says what crash recovery did, on the pages of sessions and tasks, until a person hides it.
export function Ribbon() {
  const r = useRecovery();
  const [open, setOpen] = useState(false);
  const [gone, setGone] = useState(() => sessionStorage.getItem(hidden) ?? "");
  if (!r || gone === r.started_at || serverNow() - Date.parse(r.started_at) > shownFor) return null;
  return (
    <section className="ribbon" aria-label="Crash recovery" data-testid="ribbon">
      <p role="status">
        <Icon name="check" /> {headline(r)}.
      </p>
      <span className="row-of">
        {r.unknown > 0 && (
          <Link to="/tasks" search={{ tab: "failed" }}>
            {r.unknown} unknown: resolve
          </Link>
        )}
        {Object.keys(r.actions).length > 0 && (
          <Button look="bare" aria-expanded={open} onPress={() => setOpen(!open)}>
            {open ? "Less" : "Why it was safe"}
          </Button>
        )}
        <Button
          look="bare"
          onPress={() => {
            sessionStorage.setItem(hidden, r.started_at);
            setGone(r.started_at);
          }}
        >
          Hide
        </Button>
      </span>
      {open && (
        <ul className="small">
          {reasons(r).map((s) => (
            <li key={s}>{s}</li>
          ))}
          <li>Every effect was claimed before it started, and each take-over is in the journal of its session.</li>
        </ul>
      )}
    </section>
  );
}
