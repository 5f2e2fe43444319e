import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { need, type Schemas } from "../../client";
import { api, root } from "../app/api";
import type { Look } from "../app/icon";
import { Button } from "../app/pieces";
import { useMay } from "../principal/principal";
import { LongText } from "../session/details";
import { oneLine, safe } from "../text/text";
import { Cli } from "./dialog";
import { Facts, Head, Lines, Loaded } from "./pieces";

type Finding = Schemas["Finding"];

const healths: Record<string, Look> = {
  fine: { icon: "check", word: "Fine", tone: "good" },
  warn: { icon: "hand", word: "Warning", tone: "warn" },
  bad: { icon: "cross", word: "Error", tone: "bad" },
};

// About says what this server is, and what doctor finds on its machine.
export function About() {
  const read = useQuery({ queryKey: ["version"], queryFn: ({ signal }) => need<Schemas["Build"]>(api.GET("/v1/version", { signal })) });
  return (
    <>
      <Head title="About" about="Perdure, a durable runtime for the tool calls of AI agents." />
      <Loaded read={read}>
        {(b) => (
          <Facts
            facts={[
              ["Version", oneLine(b.version, 80)],
              ["Revision", b.revision && <code>{oneLine(b.revision, 80)}</code>],
              ["Date", b.date && new Date(b.date).toLocaleString()],
              ["Source", b.modified ? "changed since that revision" : ""],
              ["SQLite", b.sqlite],
              ["Go", b.go],
              ["Platform", b.platform],
              [
                "Documentation",
                <a key="docs" href={new URL("../docs", root).href} target="_blank" rel="noopener">
                  of this version
                </a>,
              ],
            ]}
          />
        )}
      </Loaded>
      <Cli text="perdure version" />
      <Doctor />
      <Licences />
    </>
  );
}

function Doctor() {
  const { may, why } = useMay("admin");
  const read = useQuery({
    queryKey: ["doctor"],
    queryFn: async ({ signal }) => (await need<{ items: Finding[] | null }>(api.GET("/v1/doctor", { signal }))).items ?? [],
    enabled: may,
    staleTime: 30_000,
  });
  return (
    <section className="settings-part" aria-labelledby="doctor">
      <h2 id="doctor">Doctor</h2>
      {!may ? (
        <p className="soft small">{why}</p>
      ) : (
        <>
          <Loaded read={read}>
            {(all) => (
              <Lines
                label="Findings of doctor"
                empty="Nothing was checked."
                lines={all.map((f) => ({
                  id: f.name,
                  look: healths[f.health] ?? { icon: "dot", word: f.health, tone: "soft" },
                  title: oneLine(f.name, 60),
                  detail: `${safe(f.says)}${f.fix ? ` · To do: ${safe(f.fix)}` : ""}`,
                }))}
              />
            )}
          </Loaded>
          <Cli text="perdure doctor" curl={{ method: "GET", path: "/v1/doctor" }} />
        </>
      )}
    </section>
  );
}

// Licences shows the licences of what is built into these pages.
function Licences() {
  const [open, setOpen] = useState(false);
  const read = useQuery({
    queryKey: ["licences"],
    enabled: open,
    staleTime: Infinity,
    queryFn: async ({ signal }) => {
      const answer = await fetch(new URL("licenses.txt", root), { signal });
      if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
      return await answer.text();
    },
  });
  return (
    <section className="settings-part" aria-labelledby="licences">
      <h2 id="licences">Licences of these pages</h2>
      {open ? (
        <Loaded read={read}>
          {(text) => (
            <>
              <ul className="words" aria-label="Packages">
                {[...text.matchAll(/^## (.+)$/gm)].map((m) => (
                  <li key={m[1]}>{oneLine(m[1]!, 120)}</li>
                ))}
              </ul>
              <LongText text={safe(text)} label="Licences" />
            </>
          )}
        </Loaded>
      ) : (
        <div>
          <Button onPress={() => setOpen(true)}>Show the licences</Button>
        </div>
      )}
    </section>
  );
}
