const paths: Record<string, string> = {
  list: "M3 4.5h10M3 8h10M3 11.5h6",
  task: "M3 3.5h10v9H3zM5.5 8l2 2 3.5-4",
  check: "M3 8.5 6.5 12 13 4.5",
  cross: "M4 4l8 8M12 4l-8 8",
  clock: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3l2 1.5",
  hand: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3.5M8 11v.01",
  ask: "M6 6a2 2 0 1 1 3 1.7c-.7.5-1 .8-1 1.6M8 11.5v.01",
  ring: "M8 2.5a5.5 5.5 0 1 1-5.5 5.5",
  dot: "M8 5.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5z",
  pause: "M5.5 4v8M10.5 4v8",
  detach: "M6 10 12.5 3.5M8 3.5h4.5V8M11 10v2.5H3.5V5H6",
  up: "M8 13V4M4 7.5 8 3.5l4 4",
  events: "M3 4h2M3 8h2M3 12h2M7 4h6M7 8h6M7 12h6",
  timeline: "M3 4h6M5 8h8M9 12h4",
  down: "M8 3v9M4 8.5 8 12.5l4-4",
  stop: "M4.5 4.5h7v7h-7z",
};

export type IconName = keyof typeof paths & string;

// Icon draws one sign. It has no name of its own: a word stands beside it.
export function Icon({ name, spin }: { name: string; spin?: boolean }) {
  return (
    <svg width="16" height="16" viewBox="0 0 16 16" fill="none" stroke="currentColor" strokeWidth="1.6" strokeLinecap="round" strokeLinejoin="round" aria-hidden="true">
      <path d={paths[name] ?? paths.dot} className={spin ? "spin" : undefined} />
    </svg>
  );
}

export type Look = { icon: string; word: string; tone: string; spin?: boolean };

// State shows a state as sign, word and colour.
export function State({ look }: { look: Look }) {
  return (
    <span className={`state tone-${look.tone}`}>
      <Icon name={look.icon} spin={look.spin} />
      {look.word}
    </span>
  );
}
