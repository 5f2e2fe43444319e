import { useEffect, useRef, useState } from "react";

type State<R> = { pending: boolean; error?: unknown; result?: R };

// useAct runs a request and knows how far it got. Unlike a mutation, nothing of it is in a cache: what a
// person typed and what the server answered may be secret, and go with the component.
export function useAct<A extends unknown[], R>(fn: (...args: A) => Promise<R>, then?: (result: R) => void) {
  const [state, setState] = useState<State<R>>({ pending: false });
  const here = useRef(true);
  useEffect(() => {
    here.current = true;
    return () => void (here.current = false);
  }, []);
  const run = async (...args: A) => {
    setState({ pending: true });
    try {
      const result = await fn(...args);
      if (here.current) setState({ pending: false, result });
      then?.(result);
    } catch (error) {
      if (here.current) setState({ pending: false, error });
    }
  };
  return { ...state, run: (...args: A) => void run(...args), reset: () => setState({ pending: false }) };
}
