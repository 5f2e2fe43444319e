import { useCallback, useSyncExternalStore } from "react";

// Texts holds what grows while it is shown, by the id of its entry: the answer that streams, and the
// output of calls. Only the rows that show a text are drawn again when it grows, not the transcript.
export class Texts {
  private all = new Map<string, string>();
  private readers = new Map<string, Set<() => void>>();
  private grown = new Set<string>();

  get = (id: string): string => this.all.get(id) ?? "";

  has = (id: string): boolean => this.all.has(id);

  set(id: string, text: string) {
    this.all.set(id, text);
    this.grown.add(id);
  }

  // append adds a piece, and keeps at least the last `keep` characters.
  append(id: string, piece: string, keep: number) {
    const text = this.get(id) + piece;
    this.set(id, text.length > 2 * keep ? text.slice(-keep) : text);
  }

  // take removes a text, and returns it.
  take(id: string): string {
    const text = this.get(id);
    this.all.delete(id);
    this.grown.delete(id);
    return text;
  }

  // follow calls fn when flush finds that a text has grown, and returns how to end that.
  follow(id: string, fn: () => void): () => void {
    const some = this.readers.get(id) ?? new Set();
    this.readers.set(id, some.add(fn));
    return () => {
      some.delete(fn);
      if (some.size === 0 && this.readers.get(id) === some) this.readers.delete(id);
    };
  }

  flush() {
    const ids = [...this.grown];
    this.grown.clear();
    ids.forEach((id) => this.readers.get(id)?.forEach((fn) => fn()));
  }
}

// useText returns a text, and draws its component again when it grows.
export function useText(texts: Texts, id: string): string {
  const follow = useCallback((fn: () => void) => texts.follow(id, fn), [texts, id]);
  return useSyncExternalStore(follow, () => texts.get(id));
}
