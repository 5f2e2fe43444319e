import { Fragment, useMemo } from "react";
import { blocksOf, spansOf, type Block } from "./blocks";
import { safe } from "./text";

// Markdown shows an answer with its headings, lists, tables and code. It makes elements, never HTML.
export function Markdown({ text }: { text: string }) {
  const blocks = useMemo(() => blocksOf(safe(text)), [text]);
  return (
    <div className="untrusted markdown" dir="auto">
      {blocks.map((b, i) => (
        <BlockView key={i} block={b} />
      ))}
    </div>
  );
}

function BlockView({ block }: { block: Block }) {
  switch (block.kind) {
    case "heading":
      return (
        <p className="heading">
          <Spans text={block.text} />
        </p>
      );
    case "quote":
      return (
        <blockquote>
          <Spans text={block.text} />
        </blockquote>
      );
    case "code":
      return (
        <pre className="code" tabIndex={0} role="region" aria-label={block.lang ? `Code, ${block.lang}` : "Code"} dir="ltr">
          {block.text}
        </pre>
      );
    case "list": {
      const List = block.start === undefined ? "ul" : "ol";
      return (
        <List start={block.start}>
          {block.items.map((item, i) => (
            <li key={i} style={{ marginInlineStart: item.level * 16 }}>
              <Spans text={item.text} />
            </li>
          ))}
        </List>
      );
    }
    case "table":
      return (
        <div className="wide" tabIndex={0} role="region" aria-label="Table">
          <table>
            <thead>
              <tr>
                {block.head.map((c, i) => (
                  <th key={i} scope="col">
                    <Spans text={c} />
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {block.rows.map((row, i) => (
                <tr key={i}>
                  {row.map((c, j) => (
                    <td key={j}>
                      <Spans text={c} />
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
  }
  return (
    <p>
      <Spans text={block.text} />
    </p>
  );
}

function Spans({ text }: { text: string }) {
  return spansOf(text).map((s, i) => {
    switch (s.kind) {
      case "code":
        return <code key={i}>{s.text}</code>;
      case "strong":
        return <strong key={i}>{s.text}</strong>;
      case "emphasis":
        return <em key={i}>{s.text}</em>;
    }
    return <Fragment key={i}>{s.text}</Fragment>;
  });
}
