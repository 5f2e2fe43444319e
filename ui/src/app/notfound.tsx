import { Link } from "@tanstack/react-router";
import { safe } from "../text/text";
import { useFind } from "./find";
import { useTitle } from "./hooks";
import { Button, Center, CopyLine } from "./pieces";

// NotFound is the page for an address that leads nowhere.
export function NotFound({ what, id }: { what: string | "schedule"; id?: string }) {
  const find = useFind();
  useTitle("Not found");
  return (
    <Center title={`There is no such ${what}`}>
      {id ? (
        <p>
          <code className="untrusted">{safe(id).slice(0, 200)}</code> does not exist, was deleted, or belongs to others.
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
        <Button onPress={() => find()}>Search for something else</Button>
      </p>
      <p>
        <Link to="/sessions">All sessions</Link> · <Link to="/tasks">All tasks</Link>
      </p>
    </Center>
  );
}
