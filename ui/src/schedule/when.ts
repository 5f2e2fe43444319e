// Moments of schedules, in the time zone of the schedule.
import { duration } from "../text/text";

// inZone returns a moment on the clock of a zone. A zone that the browser does not know is UTC.
export function inZone(at: string | number, zone: string): string {
  const parts = { weekday: "short", year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hour12: false, timeZoneName: "short" } as const;
  try {
    return new Intl.DateTimeFormat("en", { ...parts, timeZone: zone }).format(new Date(at)).replace(/, 24:/, ", 00:");
  } catch {
    return new Intl.DateTimeFormat("en", { ...parts, timeZone: "UTC" }).format(new Date(at)).replace(/, 24:/, ", 00:");
  }
}

// until says how long it takes until a moment. A moment that has passed is due.
export function until(at: string, now: number): string {
  const ms = Date.parse(at) - now;
  return ms <= 0 ? "due now" : `in ${duration(ms)}`;
}

// offsetAt returns by how many milliseconds the clock of a zone is ahead of UTC at a moment.
function offsetAt(at: number, zone: string): number {
  const parts = Object.fromEntries(
    new Intl.DateTimeFormat("en", { timeZone: zone, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" })
      .formatToParts(new Date(at))
      .map((p) => [p.type, Number(p.value)]),
  ) as Record<string, number>;
  return Date.UTC(parts.year!, parts.month! - 1, parts.day!, parts.hour!, parts.minute!, parts.second!) - Math.floor(at / 1000) * 1000;
}

// momentIn returns the moment at which the clock of a zone shows a local time such as
// 2026-03-29T02:30. Of a time that comes twice, the first one counts; a time that the clock leaves out
// becomes the end of the gap or a moment right after it. Undefined: the text or the zone is wrong.
export function momentIn(local: string, zone: string): string | undefined {
  const wall = Date.parse(`${local}Z`);
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(local) || Number.isNaN(wall)) return undefined;
  try {
    const day = 86_400_000;
    const before = offsetAt(wall - day, zone);
    const after = offsetAt(wall + day, zone);
    const found = [wall - before, wall - after].filter((at) => at + offsetAt(at, zone) === wall);
    return new Date(found.length > 0 ? Math.min(...found) : wall - before).toISOString();
  } catch {
    return undefined;
  }
}

// localIn returns a moment as the clock of a zone shows it, for a field of a form.
export function localIn(at: number, zone: string): string {
  try {
    return new Date(at + offsetAt(at, zone)).toISOString().slice(0, 16);
  } catch {
    return new Date(at).toISOString().slice(0, 16);
  }
}

// zones returns the names that the browser knows, UTC first.
export function zones(): string[] {
  return ["UTC", ...Intl.supportedValuesOf("timeZone").filter((z) => z !== "UTC")];
}
