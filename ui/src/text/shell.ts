// Lines for a shell, to be copied. They may contain texts from outside, so each word is quoted, and
// characters that a terminal would act on are written as escapes.

// eslint-disable-next-line no-control-regex
const acting = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/;
const actingAll = new RegExp(acting, "g");

// quote returns a word as a POSIX shell reads it. A word with control characters needs bash or zsh.
export function quote(word: string): string {
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(word)) return word;
  if (!acting.test(word)) return `'${word.replaceAll("'", `'\\''`)}'`;
  const escaped = word.replace(/[\\']/g, "\\$&").replace(actingAll, (c) => {
    if (c === "\n") return "\\n";
    if (c === "\t") return "\\t";
    return `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
  return `$'${escaped}'`;
}

// line joins words to a line of a shell.
export function line(...words: string[]): string {
  return words.map(quote).join(" ");
}

// Request is what a curl line sends. path begins with /v1/ and has its query, if any.
export type Request = { method: string; path: string; body?: unknown };

// curlLine returns the curl line of a request to a server, whose address ends with a slash. The token is
// that of the shell's environment, as for the command line.
export function curlLine(server: string, { method, path, body }: Request): string {
  const words = ['curl -H "Authorization: Bearer $PERDURE_TOKEN"'];
  if (method !== (body === undefined ? "GET" : "POST")) words.push(`-X ${method}`);
  words.push(quote(server + path.replace(/^\//, "")));
  if (body !== undefined) words.push(`-H "Content-Type: application/json"`, `-d ${quote(JSON.stringify(body))}`);
  return words.join(" ");
}
