import { need } from "../../client";
import { api, queries } from "../app/api";
import type { Session } from "../event/types";
import { Ask } from "../settings/dialog";
import { line } from "../text/shell";
import { homeName } from "./home";

// Move binds a session to the home of this server. Its files stay behind, which the dialog says first.
export function Move({ session, onClose }: { session: Session; onClose: () => void }) {
  const run = async () => {
    await need(api.POST("/v1/sessions/{id}/move", { params: { path: { id: session.id } }, body: {} } as never));
    await Promise.all([queries.invalidateQueries({ queryKey: ["session", session.id] }), queries.invalidateQueries({ queryKey: ["sessions"] })]);
  };
  return (
    <Ask
      title="Move this session to this server"
      action="Move"
      word={session.id.slice(-6)}
      cli={line("perdure", "session", "move", session.id, "--yes")}
      curl={{ method: "POST", path: `/v1/sessions/${session.id}/move`, body: {} }}
      run={run}
      onClose={onClose}
    >
      <p>
        Its databases, large images and workspace files are at {homeName(session.home!)}. They stay there: on this server the session has none of them,
        unless somebody copies them. What it changes here is not copied back.
      </p>
    </Ask>
  );
}
