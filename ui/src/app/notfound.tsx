import { Link } from "@tanstack/react-router";
import { useTitle } from "./hooks";
import { Center, CopyLine } from "./pieces";

// NotFound is the page for an address that leads nowhere.
export function NotFound({ what, id }: { what: "page" | "session" | "task" | "schedule"; id?: string }) {
  useTitle("Not found");
  return (
    <Center title={`There is no such ${what}`}>
      {id ? (
        <p>
          <code className="untrusted">{id}</code> does not exist, was deleted, or belongs to others.
        </p>
      ) : (
        <p>The address leads to no page of this version.</p>
      )}
      {id && (
        <>
          <p>This command lists what exists:</p>
          <CopyLine text={`perdure ${what} list`} />
        </>
      )}
      <p>
        <Link to="/sessions">All sessions</Link> · <Link to="/tasks">All tasks</Link>
      </p>
    </Center>
  );
}
