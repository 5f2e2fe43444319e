import { expect, test } from "vitest";
import { blocksOf, spansOf } from "./blocks";

test("headings, lists, quotes, code and tables are found; the rest is text", () => {
  expect(blocksOf("# Title\n\nwords\nmore\n\n- a\n  - b\n    c\n\n> said\n> again\n```go\nx := 1\n\n# no heading\n```\n| a | b |\n|---|---|\n| 1 | 2 |\nend")).toEqual([
    { kind: "heading", text: "Title" },
    { kind: "text", text: "words\nmore" },
    { kind: "list", items: [{ text: "a", level: 0 }, { text: "b\nc", level: 1 }] },
    { kind: "quote", text: "said\nagain" },
    { kind: "code", lang: "go", text: "x := 1\n\n# no heading" },
    { kind: "table", head: ["a", "b"], rows: [["1", "2"]] },
    { kind: "text", text: "end" },
  ]);
  expect(blocksOf("3. three\n4. four")).toEqual([{ kind: "list", start: 3, items: [{ text: "three", level: 0 }, { text: "four", level: 0 }] }]);
});

test("a fence that is not closed ends with the text", () => {
  expect(blocksOf("```\na\nb")).toEqual([{ kind: "code", lang: "", text: "a\nb" }]);
});

test("links, images and HTML stay text", () => {
  const text = "[x](javascript:alert(1)) ![y](https://evil.example/z.png) <b onclick=x>bold</b>";
  expect(blocksOf(text)).toEqual([{ kind: "text", text }]);
  expect(spansOf(text)).toEqual([{ kind: "text", text }]);
});

test("code and emphasis inside of a line; stars of a product are none", () => {
  expect(spansOf("a `b*c*` **d** *e* 2*3*4")).toEqual([
    { kind: "text", text: "a " },
    { kind: "code", text: "b*c*" },
    { kind: "text", text: " " },
    { kind: "strong", text: "d" },
    { kind: "text", text: " " },
    { kind: "emphasis", text: "e" },
    { kind: "text", text: " 2*3*4" },
  ]);
});

test("nothing is lost of a text that is full of marks, and it is quick", () => {
  for (const mark of ["*", "`", "**", "- ", "> ", "|", "# ", "```", "~~~", "_", "[", " "]) {
    const text = mark.repeat(20_000);
    expect(spansOf(text).reduce((n, s) => n + s.text.length, 0)).toBeLessThanOrEqual(text.length);
    blocksOf(text);
    blocksOf((mark + "\n").repeat(5_000));
    blocksOf("# a" + " ".repeat(20_000) + "b\n~~~" + "~".repeat(20_000) + "`\na|b\n" + " ".repeat(20_000) + "|");
    blocksOf((mark + "x|").repeat(5_000) + "\n" + "|-".repeat(5_000));
  }
});
