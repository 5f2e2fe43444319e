import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Input, Label, TextField } from "react-aria-components";
import { useTitle } from "../app/hooks";
import { Button, CopyLine, Failure } from "../app/pieces";
import { signIn } from "./principal";

// SignIn asks for a token. linkError is why a link did not work.
export function SignIn({ linkError }: { linkError?: unknown }) {
  const [token, setToken] = useState("");
  const act = useMutation({ mutationFn: () => signIn({ token: token.trim() }) });
  useTitle("Sign in");
  const error = act.error ?? (act.isIdle ? linkError : undefined);
  return (
    <main className="scroll" id="main">
      <div className="center">
        <h1>Sign in to Perdure</h1>
        {error ? <Failure error={error} /> : null}
        <p>On the machine of the server, this command opens a link that signs you in:</p>
        <CopyLine text="perdure ui" />
        <p>Or enter an API token:</p>
        <form
          onSubmit={(e) => {
            e.preventDefault();
            act.mutate();
          }}
        >
          <TextField type="password" value={token} onChange={setToken} autoFocus autoComplete="off" isRequired>
            <Label>Token</Label>
            <div className="copyline">
              <Input className="field" placeholder="perdure_…" spellCheck={false} />
              <Button type="submit" look="first" isDisabled={token.trim() === "" || act.isPending}>
                {act.isPending ? "Signing in…" : "Sign in"}
              </Button>
            </div>
          </TextField>
        </form>
        <p className="soft small">
          The file <code>token</code> in the data directory of the server has its first token. <code>perdure token create</code> creates others. The browser keeps the token in a cookie
          that no script can read.
        </p>
      </div>
    </main>
  );
}
