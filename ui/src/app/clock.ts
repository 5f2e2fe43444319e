// The clock of the server. Times of events are its times, so durations up to now need its now: the clock
// of the browser may be hours off.

const tolerance = 3000; // ms; the header has whole seconds, and the answer took its time

let ahead = 0; // of the server, in ms

// learnTime reads the time of an answer.
export function learnTime(answer: Response) {
  const at = Date.parse(answer.headers.get("Date") ?? "");
  if (Number.isNaN(at)) return;
  const difference = at + 500 - Date.now();
  ahead = Math.abs(difference) < tolerance ? 0 : difference;
}

// serverNow returns the time of the server.
export const serverNow = () => Date.now() + ahead;
