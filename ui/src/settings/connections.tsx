import { useState } from "react";
import { need, type Schemas } from "../../client";
import { api } from "../app/api";
import { useNow } from "../app/hooks";
import { Button } from "../app/pieces";
import { useMay } from "../principal/principal";
import { age, duration, oneLine, plural, safe } from "../text/text";
import { command } from "./command";
import { Authorize, reread, WithToken } from "./connect";
import { Ask } from "./dialog";
import { connectionLook, TestConnection, useConnections } from "./mcp";
import { useItem } from "./pages";
import { Facts, Head, Lines, Loaded, Missing, Scoped, Split } from "./pieces";

type Connection = Schemas["Connection"];

// Connections lists the caller's accounts at other services.
export function Connections() {
  const { item } = useItem();
  const { may, why } = useMay("write");
  const [open, setOpen] = useState<"" | "oauth" | "token">("");
  const read = useConnections(open === "oauth" ? 2000 : undefined);
  const accounts = read.rows?.filter((c) => c.kind === "account");
  const chosen = accounts?.find((c) => c.name === item);
  return (
    <>
      <Head title="Connections" about="Your accounts at other services. Calls that wait for a connection continue when it is there. A token is stored encrypted and never shown.">
        {may ? (
          <>
            <Button look="first" onPress={() => setOpen("oauth")}>
              Connect an account
            </Button>
            <Button onPress={() => setOpen("token")}>With a token</Button>
          </>
        ) : (
          <span className="soft small">{why}</span>
        )}
      </Head>
      <Loaded read={{ ...read, data: accounts }}>
        {(all) => (
          <Split
            section="connections"
            noun="account"
            list={
              <Lines
                section="connections"
                chosen={item}
                label={plural(all.length, "account")}
                empty="You have connected no account."
                lines={all.map((c) => ({
                  id: c.name,
                  item: c.name,
                  look: connectionLook(c),
                  title: oneLine(c.name, 80),
                  detail: [c.oauth ? "OAuth" : "a token", c.user && `user ${oneLine(c.user, 40)}`, c.hosts?.length ? `for ${oneLine(c.hosts.join(", "), 120)}` : ""].filter(Boolean).join(" · "),
                }))}
              />
            }
            detail={chosen ? <Account key={chosen.name} of={chosen} /> : item !== undefined ? <Missing noun="account" id={item} section="connections" /> : undefined}
          />
        )}
      </Loaded>
      {open === "oauth" && <Authorize known={accounts ?? []} onClose={() => setOpen("")} />}
      {open === "token" && <WithToken onClose={() => setOpen("")} />}
    </>
  );
}

function Account({ of }: { of: Connection }) {
  const now = useNow(5000);
  const { choose } = useItem();
  const [asking, setAsking] = useState(false);
  return (
    <>
      <h2>{safe(of.name)}</h2>
      <Facts
        facts={[
          ["State", connectionLook(of).word],
          ["Scopes", of.scopes?.length ? oneLine(of.scopes.join(" "), 300) : ""],
          ["May be sent to", of.hosts?.length ? oneLine(of.hosts.join(", "), 300) : "no host by itself"],
          ["Expires", of.expires_at && (Date.parse(of.expires_at) > now ? `in ${duration(Date.parse(of.expires_at) - now)}` : age(of.expires_at, now))],
          ["Connected", of.created_at && age(of.created_at, now)],
          ["Last error", of.last_error && <span className="untrusted">{safe(of.last_error)}</span>],
        ]}
      />
      <TestConnection name={of.name} verb="Test" />
      <Scoped scope="write">
        <div>
          <Button onPress={() => setAsking(true)}>Disconnect…</Button>
        </div>
      </Scoped>
      {asking && (
        <Ask
          title={`Disconnect ${oneLine(of.name, 60)}?`}
          action="Disconnect"
          word={of.name}
          cli={command("perdure", "connection", "delete", of.name)}
          curl={{ method: "DELETE", path: `/v1/connections/${of.name}` }}
          run={async () => {
            await need(api.DELETE("/v1/connections/{connection}", { params: { path: { connection: of.name } } } as never));
            choose({ item: undefined });
            void reread();
          }}
          onClose={() => setAsking(false)}
        >
          <p>The token is removed here. It stays valid at the service until it is revoked there.</p>
        </Ask>
      )}
    </>
  );
}
