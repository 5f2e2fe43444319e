// Texts come from models, tools and strangers. They are shown as text, without characters that change
// how other text is shown.

// controls are control characters except tab and newline, and those that change the direction of text.
// eslint-disable-next-line no-control-regex
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

// safe makes invisible characters visible.
export function safe(text: string): string {
  return text.replace(controls, (c) => {
    const code = c.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : "\ufffd";
  });
}

// oneLine returns a text on one line of at most n characters.
export function oneLine(text: string, n: number): string {
  const line = safe(text.length > 4 * n ? text.slice(0, 4 * n) : text)
    .replace(/\s+/g, " ")
    .trim();
  return line.length > n ? line.slice(0, n - 1) + "…" : line;
}

// lastLines returns the last n lines of a text, without white space at its end.
export function lastLines(text: string, n: number): string {
  const whole = text.trimEnd();
  let from = whole.length;
  for (let i = 0; i < n && from >= 0; i++) from = from === 0 ? -1 : whole.lastIndexOf("\n", from - 1);
  return whole.slice(from + 1);
}

// pretty returns a JSON value for people; a text that is JSON counts as its value.
export function pretty(value: unknown): string {
  if (typeof value === "string") return safe(value);
  try {
    return safe(JSON.stringify(value, null, 2) ?? "");
  } catch {
    return "(cannot be shown)";
  }
}

// duration returns a time span in the two largest units. A span that clocks make negative is 0.
export function duration(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  if (ms < 950) return `${Math.max(0, Math.round(ms / 10) / 100).toFixed(1)} s`;
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// age says how long ago a moment was, at now.
export function age(at: string | undefined, now: number): string {
  if (!at) return "";
  const ms = now - Date.parse(at);
  return ms < 5000 ? "now" : `${duration(ms).replace(/ \d+ (s|min)$/, "")} ago`;
}

// clock returns the time of day of a moment.
export function clock(at: string | number): string {
  return new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}

// bytes returns a size.
export function bytes(n: number): string {
  if (n < 1024) return `${n} B`;
  if (n < 1 << 20) return `${(n / 1024).toFixed(1)} KiB`;
  if (n < 1 << 30) return `${(n / (1 << 20)).toFixed(1)} MiB`;
  return `${(n / (1 << 30)).toFixed(1)} GiB`;
}

// plural returns a count with its noun.
export function plural(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? "" : "s"}`;
}

// modelName returns a model as people call it: a script by its file, without the folder.
export function modelName(model: string): string {
  const [, script] = /^scripted:.*[/\\]([^/\\]+)$/.exec(model) ?? [];
  return oneLine(script ? `scripted:${script}` : model, 60);
}
