import { expect, test } from "vitest";
import { fileChange } from "./file";

test("a write replaces the file, a removal empties it, and other tools change none", () => {
  expect(fileChange("write_file", { path: "/a", content: "new" })!.after("old")).toEqual({ text: "new" });
  expect(fileChange("delete_file", { path: "/a" })!.after("old")).toEqual({ text: "" });
  expect(fileChange("write_file", { path: "/a", content: "AA==", encoding: "base64" })).toBeUndefined();
  expect(fileChange("bash", { path: "/a", content: "x" })).toBeUndefined();
  expect(fileChange("write_file", ["/a"])).toBeUndefined();
  expect(fileChange("write_file", { path: 1, content: "x" })).toBeUndefined();
});

test("an edit replaces as the tool does: literally, once, or everywhere if it says so", () => {
  const edit = (more: object) => fileChange("edit_file", { path: "/a", old_text: "b", new_text: "$&", ...more })!;
  expect(edit({}).after("abc")).toEqual({ text: "a$&c" });
  expect(edit({}).after("bb").note).toContain("2 times");
  expect(edit({ replace_all: true }).after("bb")).toEqual({ text: "$&$&" });
  expect(edit({}).after(undefined).note).toContain("not in the file");
});
