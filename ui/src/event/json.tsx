import { useState } from "react";
import { Button as AriaButton } from "react-aria-components";
import { Icon } from "../app/icon";
import { safe } from "../text/text";

const openDepth = 3; // of the tree, when it is first shown
const shownAtOnce = 100; // members of one value
const textChars = 600;
const mask = "<redacted>"; // how the journal writes a secret

// Json shows a value as a tree. Each part can be folded, and its path copied.
export function Json({ value, label }: { value: unknown; label: string }) {
  return (
    <div className="json" role="group" aria-label={label}>
      <Node name="" path="" value={value} depth={0} />
    </div>
  );
}

function Node({ name, path, value, depth }: { name: string; path: string; value: unknown; depth: number }) {
  const [open, setOpen] = useState(depth < openDepth);
  const [shown, setShown] = useState(shownAtOnce);
  const inner = typeof value === "object" && value !== null;
  const members = inner ? membersOf(value) : [];
  const [start, end] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  return (
    <div className="node" style={{ paddingInlineStart: depth === 0 ? 0 : 14 }}>
      <div className="member">
        {inner && members.length > 0 && (
          <AriaButton className="fold" aria-expanded={open} aria-label={`${open ? "Fold" : "Unfold"} ${safe(name) || "all"}`} onPress={() => setOpen(!open)}>
            {open ? "▾" : "▸"}
          </AriaButton>
        )}
        {name && <span className="key">{safe(name)}: </span>}
        {inner ? (
          <span className="soft">
            {start}
            {members.length === 0 ? end : open ? "" : ` ${members.length} ${end}`}
          </span>
        ) : (
          <Leaf value={value} />
        )}
        {path && <CopyPath path={path} />}
      </div>
      {open &&
        members
          .slice(0, shown)
          .map(([key, inside]) => <Node key={key} name={key} path={join(path, key, Array.isArray(value))} value={inside} depth={depth + 1} />)}
      {open && members.length > shown && (
        <AriaButton className="fold more" onPress={() => setShown(shown + shownAtOnce)}>
          {(members.length - shown).toLocaleString()} more
        </AriaButton>
      )}
      {open && members.length > 0 && <div className="soft">{end}</div>}
    </div>
  );
}

function membersOf(value: object): [string, unknown][] {
  return Array.isArray(value) ? value.map((v, i) => [String(i), v]) : Object.entries(value);
}

// join returns the path of a member, as jq takes it.
export function join(path: string, key: string, isArray: boolean): string {
  if (isArray) return `${path}[${key}]`;
  return /^[A-Za-z_]\w*$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`;
}

function Leaf({ value }: { value: unknown }) {
  const [all, setAll] = useState(false);
  if (typeof value !== "string") return <span className="value">{String(value)}</span>;
  const long = value.length > textChars && !all;
  const parts = (long ? value.slice(0, textChars) : value).split(mask);
  return (
    <span className="value untrusted" dir="auto">
      &quot;
      {parts.map((part, i) => (
        <span key={i}>
          {i > 0 && (
            <span className="masked" title="The journal holds the mask, not the secret">
              •••• secret
            </span>
          )}
          {safe(part)}
        </span>
      ))}
      &quot;
      {long && (
        <AriaButton className="fold more" onPress={() => setAll(true)}>
          {(value.length - textChars).toLocaleString()} more characters
        </AriaButton>
      )}
    </span>
  );
}

function CopyPath({ path }: { path: string }) {
  const [copied, setCopied] = useState(false);
  return (
    <AriaButton className="fold path" aria-label={`Copy the path ${safe(path)}`} onPress={() => void navigator.clipboard?.writeText(path).then(() => setCopied(true))}>
      {copied ? <Icon name="check" /> : "path"}
    </AriaButton>
  );
}
