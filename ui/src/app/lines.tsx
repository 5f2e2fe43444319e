import { curlLine, type Request } from "../text/shell";
import { server } from "./api";
import { CopyLine } from "./pieces";
import "./lines.css";

// ActionLines shows the two other ways to do what a button does: a line of the CLI, made with line() of
// text/shell, and a line of curl. Both can be copied.
export function ActionLines({ cli, curl, open }: { cli: string; curl: Request; open?: boolean }) {
  return (
    <details className="action-lines" open={open}>
      <summary>As a command</summary>
      <CopyLine text={cli} />
      <CopyLine text={curlLine(server.href, curl)} />
    </details>
  );
}
