// Found is something that a search can find. words is all text that is searched, the first line of it
// the title.
export type Found = { id: string; group: string; title: string; about: string; icon: string; words?: string };

const most = 8; // of one group
const mostAll = 40;

// rank says how well something matches: 0 not at all. Each word of the query must be there.
export function rank(query: string, item: Found): number {
  const title = item.title.toLowerCase();
  const all = `${title} ${item.id} ${item.about} ${item.words ?? ""}`.toLowerCase();
  let sum = 0;
  for (const word of query.toLowerCase().split(/\s+/).filter(Boolean)) {
    const at = title.indexOf(word);
    if (at === 0) sum += 4;
    else if (at > 0 && /\W/.test(title[at - 1]!)) sum += 3;
    else if (at > 0) sum += 2;
    else if (all.includes(word)) sum += 1;
    else return 0;
  }
  return sum + (title === query.toLowerCase().trim() ? 4 : 0);
}

// search returns what matches, the best first, some of each group. Groups keep their order, except that
// the group with the best match comes first.
export function search(query: string, items: Found[]): Found[] {
  if (!query.trim()) return items.filter((i) => i.group === "Pages" || i.group === "Needs you").slice(0, mostAll);
  const groups = new Map<string, { item: Found; score: number }[]>();
  for (const item of items) {
    const score = rank(query, item);
    if (score === 0) continue;
    const some = groups.get(item.group);
    if (some) some.push({ item, score });
    else groups.set(item.group, [{ item, score }]);
  }
  const sorted = [...groups.values()].map((some) => some.sort((a, b) => b.score - a.score));
  sorted.sort((a, b) => b[0]!.score - a[0]!.score);
  return sorted.flatMap((some) => some.slice(0, most).map((s) => s.item)).slice(0, mostAll);
}
