import { getRouteApi } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { Menu, MenuItem, MenuTrigger, Popover } from "react-aria-components";
import { server } from "../app/api";
import { Button } from "../app/pieces";
import type { Session } from "../event/types";
import { useMay } from "../principal/principal";
import type { Reading } from "./reader";

const route = getRouteApi("/sessions/$id");
const Fork = lazy(async () => ({ default: (await import("./fork")).Fork }));
const Delete = lazy(async () => ({ default: (await import("./delete")).Delete }));
const Move = lazy(async () => ({ default: (await import("./move")).Move }));
const Inspector = lazy(async () => ({ default: (await import("./inspector")).Inspector }));

// More has what is needed less often: the inspector, whose part is in the address, fork, export and the
// deletion.
export function More({ session, reading, busy }: { session: Session; reading: Reading; busy: boolean }) {
  const { pane } = route.useSearch();
  const navigate = route.useNavigate();
  const write = useMay("write");
  const admin = useMay("admin");
  const [asks, setAsks] = useState<"fork" | "delete" | "move">();
  const show = (next: typeof pane) => void navigate({ search: next ? { pane: next } : {}, replace: !!pane });
  return (
    <>
      <MenuTrigger>
        <Button>More</Button>
        <Popover className="menu" placement="bottom end">
          <Menu aria-label="More about this session">
            <MenuItem className="menu-item" onAction={() => show("files")}>
              Inspect files, values, secrets
            </MenuItem>
            {write.may && (
              <MenuItem className="menu-item" onAction={() => setAsks("fork")}>
                Fork…
              </MenuItem>
            )}
            {admin.may && (
              <MenuItem className="menu-item" href={new URL(`v1/sessions/${encodeURIComponent(session.id)}/export`, server).href} download={`${session.id}.jsonl`}>
                Export
              </MenuItem>
            )}
            {admin.may && session.home && !session.home.here && !session.parent_session_id && (
              <MenuItem className="menu-item" onAction={() => setAsks("move")}>
                Move to this server…
              </MenuItem>
            )}
            {write.may && !session.parent_session_id && (
              <MenuItem className="menu-item" onAction={() => setAsks("delete")}>
                Delete…
              </MenuItem>
            )}
          </Menu>
        </Popover>
      </MenuTrigger>
      <Suspense>
        {asks === "fork" && <Fork session={session} onClose={() => setAsks(undefined)} />}
        {asks === "delete" && <Delete session={session} busy={busy} onClose={() => setAsks(undefined)} />}
        {asks === "move" && <Move session={session} onClose={() => setAsks(undefined)} />}
        {pane && <Inspector id={session.id} reading={reading} pane={pane} onPane={show} onClose={() => show(undefined)} />}
      </Suspense>
    </>
  );
}
