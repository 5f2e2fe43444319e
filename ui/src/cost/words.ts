import { plural } from "../text/text";

// Cost is an amount by currency.
export type Cost = Record<string, string>;

// costWords says what a line cost. While the price of a part is unknown, the sum is unknown too, and never
// 0. The words are those of the CLI.
export function costWords(line: { cost?: Cost; unpriced?: number; model_calls?: number }): string {
  const known = Object.entries(line.cost ?? {})
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([currency, text]) => `${text} ${currency}`)
    .join(", ");
  if (line.unpriced && known) return `unknown: ${known} plus ${plural(line.unpriced, "model call")} without a price`;
  if (line.unpriced) return "unknown";
  if (!known && !line.model_calls) return "-";
  return known || "0 usd";
}
