import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { need, type Schemas } from "../../client";
import { api, queries } from "../app/api";
import { State } from "../app/icon";
import { Button, Failure } from "../app/pieces";
import { useMay } from "../principal/principal";
import { oneLine } from "../text/text";
import { useAct } from "./act";
import { Authorize } from "./connect";
import { connectionLook, useConnections } from "./mcp";

const missing = { icon: "cross", word: "Not connected", tone: "warn" } as const;

// ServerAccounts lists the accounts whose tokens an MCP server gets, and connects them.
export function ServerAccounts({ of }: { of: Schemas["Connection"] }) {
  const { may, why } = useMay("write");
  const [open, setOpen] = useState("");
  const read = useConnections(open ? 2000 : undefined);
  const known = read.rows?.filter((c) => c.kind === "account");
  // Many servers show their tools to nobody without an account.
  const ask = useAct(
    () => need(api.POST("/v1/connections/{connection}/test", { params: { path: { connection: of.name } }, body: {} } as never)),
    () => {
      void queries.invalidateQueries({ queryKey: ["connections"] });
      void queries.invalidateQueries({ queryKey: ["tools"] });
    },
  );
  if (!of.accounts?.length || !known) return null;
  return (
    <>
      <h3>Accounts</h3>
      <p className="soft small">The calls of a session carry the token of its user. A person who asks for the tools, or makes a test call, does so with their own account.</p>
      <ul className="lines" aria-label="Accounts that the server needs">
        {of.accounts.map((name) => {
          const account = known.find((c) => c.name === name);
          return (
            <li key={name}>
              <div className="line-link">
                <span className="line-main">
                  {account ? (
                    <Link to="/settings/$section" params={{ section: "connections" }} search={{ item: name }} className="line-title">
                      {oneLine(name, 80)}
                    </Link>
                  ) : (
                    <span className="line-title">{oneLine(name, 80)}</span>
                  )}
                </span>
                <State look={account ? connectionLook(account) : missing} />
              </div>
              {account?.state !== "ready" && (
                <span className="row-of line-aside">{may ? <Button onPress={() => setOpen(name)}>Connect…</Button> : <span className="soft small">{why}</span>}</span>
              )}
            </li>
          );
        })}
      </ul>
      {ask.pending && (
        <p role="status" className="small">
          Asking the server for its tools…
        </p>
      )}
      {ask.error ? <Failure error={ask.error} /> : null}
      {open && <Authorize known={known} provider={open} onConnected={ask.run} onClose={() => setOpen("")} />}
    </>
  );
}
