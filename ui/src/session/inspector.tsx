import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { Dialog, Heading, Modal, ModalOverlay, Tab, TabList, TabPanel, Tabs } from "react-aria-components";
import { need, type Schemas } from "../../client";
import { api, server } from "../app/api";
import { useNow } from "../app/hooks";
import { Button, Failure } from "../app/pieces";
import { usePages } from "../list/read";
import { age, bytes, clock, pretty } from "../text/text";
import { visible } from "../text/exact";
import { oneLine } from "../text/text";
import type { Reading } from "./reader";
import { LongText } from "./details";
import "./new.css";
import "./inspector.css";

export type Pane = "files" | "values" | "secrets" | "denied";
const panes: { id: Pane; word: string }[] = [
  { id: "files", word: "Files" },
  { id: "values", word: "Values" },
  { id: "secrets", word: "Secrets" },
  { id: "denied", word: "Denied requests" },
];

type Props = { id: string; reading: Reading; pane: Pane; onPane: (pane: Pane) => void; onClose: () => void };

// Inspector shows what a session has besides its transcript, in a drawer.
export function Inspector({ id, reading, pane, onPane, onClose }: Props) {
  return (
    <ModalOverlay className="backdrop drawer" isDismissable isOpen onOpenChange={(open) => !open && onClose()}>
      <Modal className="modal">
        <Dialog>
          <div className="row-of between">
            <Heading slot="title" level={2}>
              What this session has
            </Heading>
            <Button onPress={onClose}>Close</Button>
          </div>
          <Tabs selectedKey={pane} onSelectionChange={(key) => onPane(key as Pane)}>
            <TabList aria-label="Parts of the session" className="tabs">
              {panes.map((p) => (
                <Tab key={p.id} id={p.id} className="tab">
                  {p.word}
                  {p.id === "denied" && reading.denials.length > 0 && ` ${reading.denials.length}`}
                </Tab>
              ))}
            </TabList>
            <TabPanel id="files">
              <Files id={id} />
            </TabPanel>
            <TabPanel id="values">
              <Values id={id} />
            </TabPanel>
            <TabPanel id="secrets">
              <Secrets id={id} />
            </TabPanel>
            <TabPanel id="denied">
              <Denied reading={reading} />
            </TabPanel>
          </Tabs>
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

type Read<T> = { rows: T[] | undefined; error: unknown; refetch: () => unknown; hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown };

function Listed<T>({ read, none, row }: { read: Read<T>; none: string; row: (item: T) => ReactNode }) {
  if (!read.rows) return read.error ? <Failure error={read.error} onRetry={() => void read.refetch()} /> : <p role="status">Loading…</p>;
  if (read.rows.length === 0) return <p className="soft">{none}</p>;
  return (
    <>
      <ul className="things">{read.rows.map(row)}</ul>
      {read.hasNextPage && (
        <p>
          <Button isDisabled={read.isFetchingNextPage} onPress={() => void read.fetchNextPage()}>
            Read more
          </Button>
        </p>
      )}
    </>
  );
}

function Files({ id }: { id: string }) {
  const [path, setPath] = useState("/");
  const now = useNow(10_000);
  const read = usePages<Schemas["File"]>(["files", id, path], (at, signal) => need(api.GET("/v1/sessions/{id}/files", { signal, params: { path: { id }, query: { path, ...at } } })), { staleTime: 0 });
  const up = path.replace(/\/[^/]+\/?$/, "") || "/";
  return (
    <>
      <p className="row-of small">
        <span className="mono path">{visible(path)}</span>
        {path !== "/" && (
          <Button look="bare" onPress={() => setPath(up)}>
            Up
          </Button>
        )}
      </p>
      <Listed
        read={read}
        none="This directory is empty."
        row={(f) => (
          <li key={f.path}>
            {f.is_directory ? (
              <Button look="bare" onPress={() => setPath(f.path)}>
                {visible(f.path.split("/").at(-1) ?? "")}/
              </Button>
            ) : (
              <a className="mono" href={new URL(`v1/sessions/${encodeURIComponent(id)}/files/${f.path.replace(/^\/+/, "").split("/").map(encodeURIComponent).join("/")}`, server).href} download={f.path.split("/").at(-1)}>
                {visible(f.path.split("/").at(-1) ?? "")}
              </a>
            )}
            <span className="soft small">
              {!f.is_directory && `${bytes(f.size_bytes)} · `}
              {age(f.updated_at, now)}
              {f.is_readonly && " · read only"}
            </span>
          </li>
        )}
      />
    </>
  );
}

function Values({ id }: { id: string }) {
  const now = useNow(10_000);
  const read = usePages<Schemas["ValueStat"]>(["values", id], (at, signal) => need(api.GET("/v1/sessions/{id}/values", { signal, params: { path: { id }, query: { ...at } } })), { staleTime: 0 });
  return (
    <Listed
      read={read}
      none="The agent stored no values."
      row={(v) => (
        <li key={v.key} className="tall">
          <details>
            <summary className="mono">{visible(v.key)}</summary>
            <OneValue id={id} name={v.key} />
          </details>
          <span className="soft small">
            version {v.version} · {age(v.updated_at, now)}
          </span>
        </li>
      )}
    />
  );
}

function OneValue({ id, name }: { id: string; name: string }) {
  const read = useQuery({ queryKey: ["value", id, name], queryFn: ({ signal }) => need(api.GET("/v1/sessions/{id}/values/{key}", { signal, params: { path: { id, key: name } } })) as Promise<Schemas["Value"]> });
  if (read.error) return <Failure error={read.error} />;
  return <LongText text={read.data ? pretty((read.data as { value?: unknown }).value) : "Loading…"} label={`Value of ${name}`} />;
}

function Secrets({ id }: { id: string }) {
  const now = useNow(10_000);
  const read = usePages<Schemas["Secret"]>(["secrets", id], (at, signal) => need(api.GET("/v1/sessions/{id}/secrets", { signal, params: { path: { id }, query: { ...at } } })), { staleTime: 0 });
  return (
    <>
      <p className="soft small">Only names: no page and no request returns the value of a secret.</p>
      <Listed
        read={read}
        none="This session has no secrets."
        row={(s) => (
          <li key={s.name}>
            <span className="mono">{visible(s.name)}</span>
            <span className="soft small">
              {s.hosts && s.hosts.length > 0 && `only for ${oneLine(s.hosts.join(", "), 100)} · `}version {s.version} · {age(s.updated_at, now)}
            </span>
          </li>
        )}
      />
    </>
  );
}

function Denied({ reading }: { reading: Reading }) {
  if (reading.denials.length === 0) return <p className="soft">No request of a tool was denied{reading.earlier ? " in the part of the session that is read" : ""}.</p>;
  return (
    <ul className="things">
      {reading.denials.toReversed().map((d) => (
        <li key={d.seq}>
          <span className="mono">{visible(oneLine(d.host, 120))}</span>
          <span className="small">
            {oneLine(d.why || d.rule, 200)} <span className="soft">· {clock(d.at)}</span>
          </span>
        </li>
      ))}
    </ul>
  );
}
