import { useState, type ReactNode } from "react";
import { Button as AriaButton, type ButtonProps } from "react-aria-components";
import { RequestFailed } from "../../client";
import { safe } from "../text/text";

// Button is a button. look first: the main action of a place; bare: one that recedes.
export function Button({ look = "", ...rest }: ButtonProps & { look?: "" | "first" | "bare" }) {
  return <AriaButton {...rest} className={`button ${look}`} />;
}

// Failure says what happened, why, and what to do.
export function Failure({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const known = error instanceof RequestFailed ? error : undefined;
  const away = known?.status === 0;
  return (
    <div className="notice bad" role="alert">
      <p>
        <strong>{away ? "The server does not answer" : (known?.problem.title ?? "Something went wrong on this page")}</strong>
      </p>
      <p className="untrusted">{away ? "This page tries again by itself. Work that was acknowledged is stored." : safe(String((error as Error)?.message ?? error))}</p>
      {known?.problem.request_id && <p className="soft small">Request {known.problem.request_id}</p>}
      {onRetry && (
        <p>
          <Button onPress={onRetry}>Try again</Button>
        </p>
      )}
    </div>
  );
}

// CopyLine is a command to copy.
export function CopyLine({ text }: { text: string }) {
  const [copied, setCopied] = useState(false);
  return (
    <div className="copyline">
      <code>{text}</code>
      <Button
        aria-label={`Copy: ${text}`}
        onPress={() => {
          void navigator.clipboard?.writeText(text).then(() => setCopied(true));
        }}
      >
        {copied ? "Copied" : "Copy"}
      </Button>
    </div>
  );
}

// Center is a page with a few words.
export function Center({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div className="scroll">
      <div className="center">
        <h1>{title}</h1>
        {children}
      </div>
    </div>
  );
}
