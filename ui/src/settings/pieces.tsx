import type { UseInfiniteQueryResult } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode } from "react";
import { RequestFailed } from "../../client";
import { State, type Look } from "../app/icon";
import { Button, Failure } from "../app/pieces";
import { type Scope, useMay } from "../principal/principal";

// Head is the head of a section.
export function Head({ title, about, children }: { title: string; about: ReactNode; children?: ReactNode }) {
  return (
    <header className="settings-head">
      <div>
        <h1>{title}</h1>
        <p className="soft small">{about}</p>
      </div>
      {children && <div className="row-of">{children}</div>}
    </header>
  );
}

// Scoped shows an action to those who may do it, and to others what they need.
export function Scoped({ scope, children }: { scope: Scope; children: ReactNode }) {
  const { may, why } = useMay(scope);
  return may ? children : <p className="soft small">{why}</p>;
}

type Read<T> = { data: T | undefined; error: unknown; refetch: () => unknown };

// Loaded shows what was read, that it is being read, or why it could not be read.
export function Loaded<T>({ read, children }: { read: Read<T>; children: (data: T) => ReactNode }) {
  if (read.data !== undefined) return children(read.data);
  if (read.error) return <Failure error={read.error} onRetry={() => void read.refetch()} />;
  return (
    <p role="status" className="soft">
      Loading…
    </p>
  );
}

type Line = { id: string; item?: string; look?: Look; title: ReactNode; detail?: ReactNode; aside?: ReactNode };

// Lines is a list of things. A line with an item leads to it.
export function Lines({ lines, label, empty, section, chosen }: { lines: Line[]; label: string; empty: ReactNode; section?: string; chosen?: string | undefined }) {
  if (lines.length === 0) return <div className="settings-empty soft">{empty}</div>;
  return (
    <ul className="lines" aria-label={label}>
      {lines.map((l) => {
        const words = (
          <>
            <span className="line-main">
              <span className="line-title">{l.title}</span>
              {l.detail && <span className="line-detail soft small">{l.detail}</span>}
            </span>
            {l.look && <State look={l.look} />}
          </>
        );
        return (
          <li key={l.id}>
            {l.item !== undefined && section ? (
              <Link to="/settings/$section" params={{ section }} search={(s) => ({ ...s, item: l.item })} className="line-link" aria-current={chosen === l.item ? "true" : undefined}>
                {words}
              </Link>
            ) : (
              <div className="line-link">{words}</div>
            )}
            {l.aside && <span className="row-of line-aside">{l.aside}</span>}
          </li>
        );
      })}
    </ul>
  );
}

// More reads the next page of a list.
export function More({ read }: { read: Pick<UseInfiniteQueryResult, "hasNextPage" | "isFetchingNextPage" | "fetchNextPage"> }) {
  if (!read.hasNextPage) return null;
  return (
    <p>
      <Button isDisabled={read.isFetchingNextPage} onPress={() => void read.fetchNextPage()}>
        {read.isFetchingNextPage ? "Loading…" : "Show more"}
      </Button>
    </p>
  );
}

// Facts is a table of names and values.
export function Facts({ facts }: { facts: [string, ReactNode][] }) {
  return (
    <dl className="settings-facts">
      {facts
        .filter(([, value]) => value !== undefined && value !== null && value !== false && value !== "")
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

// Split is a list beside what is chosen in it. On a narrow screen the chosen thing replaces the list.
export function Split({ list, detail, section, noun }: { list: ReactNode; detail?: ReactNode; section: string; noun: string }) {
  return (
    <div className="split" data-open={detail ? "" : undefined}>
      <div className="split-list">{list}</div>
      {detail && (
        <section className="split-detail" aria-label={`The chosen ${noun}`}>
          <Link to="/settings/$section" params={{ section }} search={(s) => ({ ...s, item: undefined })} className="split-back">
            ‹ All {noun}s
          </Link>
          {detail}
        </section>
      )}
    </div>
  );
}

// Missing says that the chosen thing does not exist.
export function Missing({ noun, id, section }: { noun: string; id: string; section: string }) {
  return (
    <div className="notice">
      <p>
        <strong>There is no such {noun}</strong>
      </p>
      <p>
        <code className="untrusted">{id}</code> does not exist, was deleted, or belongs to others.
      </p>
      <p>
        <Link to="/settings/$section" params={{ section }} search={{}}>
          Show all {noun}s
        </Link>
      </p>
    </div>
  );
}

// isMissing reports whether an error says that a thing does not exist.
export const isMissing = (err: unknown) => err instanceof RequestFailed && (err.status === 404 || err.status === 400);
