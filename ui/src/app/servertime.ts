import { useEffect, useState } from "react";

// skew is how far the clock of the server is ahead of the one here, in milliseconds. A difference
// that the resolution of the Date header can explain is none.
let skew = 0;

// heardAt learns the time of the server from a response.
export function heardAt(date: string | null, now = Date.now()) {
  const there = Date.parse(date ?? "");
  if (Number.isNaN(there)) return;
  const ahead = there + 500 - now;
  skew = Math.abs(ahead) < 2000 ? 0 : ahead;
}

// serverNow returns the time of the server, so that ages are right whatever the clock here says.
export const serverNow = () => Date.now() + skew;

// useServerNow returns the time of the server, as often as asked for.
export function useServerNow(everyMs = 1000): number {
  const [now, setNow] = useState(serverNow);
  useEffect(() => {
    const timer = setInterval(() => setNow(serverNow()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
