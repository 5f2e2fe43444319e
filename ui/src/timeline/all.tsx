export function TimelineOfAll() {
  return null;
}
