// Change is what a call would do to a file of the session.
export type Change = { path: string; deletes?: boolean; after: (before: string | undefined) => { text: string; note?: string } };

type Args = Record<string, unknown>;
const text = (args: Args, name: string) => (typeof args[name] === "string" ? (args[name] as string) : undefined);

// fileChange returns what a call of the file tools would do, or undefined for other calls.
export function fileChange(tool: string, args: unknown): Change | undefined {
  if (!args || typeof args !== "object" || Array.isArray(args)) return undefined;
  const a = args as Args;
  const path = text(a, "path");
  if (!path) return undefined;
  if (tool === "write_file") {
    const content = text(a, "content");
    return content === undefined || a.encoding === "base64" ? undefined : { path, after: () => ({ text: content }) };
  }
  if (tool === "delete_file") return { path, deletes: true, after: () => ({ text: "" }) };
  const from = text(a, "old_text");
  const to = text(a, "new_text");
  if (tool !== "edit_file" || !from || to === undefined) return undefined;
  return {
    path,
    after: (before = "") => {
      const times = before.split(from).length - 1;
      if (times === 0) return { text: before, note: "The text to replace is not in the file: as it is now, the call will fail." };
      if (times > 1 && a.replace_all !== true) return { text: before, note: `The text to replace is ${times} times in the file: as it is now, the call will fail.` };
      return { text: before.split(from).join(to) };
    },
  };
}
