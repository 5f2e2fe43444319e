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
  down: "M8 3v9M4 8.5 8 12.5l4-4",
  stop: "M4.5 4.5h7v7h-7z",
  timeline: "M2.5 4h5.5M5 8h6.5M8.5 12h5",
  calendar: "M3 4.5h10V13H3zM3 7.5h10M6 3v2.5M10 3v2.5",
  shield: "M8 2.5 13 4.5V8c0 3-2.2 4.8-5 5.5C5.2 12.8 3 11 3 8V4.5zM5.8 8l1.6 1.6 2.8-3.2",
  pulse: "M2.5 8H5l1.5-4 3 8L11 8h2.5",
  coin: "M8 2.5v11M10.9 5.3C10.4 4.4 9.3 4 8 4 6.3 4 5.1 4.7 5.1 6S6.3 7.7 8 8s2.9.7 2.9 2-1.2 2-2.9 2c-1.4 0-2.5-.4-3-1.3",
  sliders: "M3 5h5.5M11.5 5H13M3 11h1.5M7.5 11H13M10 3.5v3M6 9.5v3",
  more: "M3.8 8h.01M8 8h.01M12.2 8h.01",
  search: "M7 3a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM10 10l3.5 3.5",
  keys: "M2 4.5h12v7H2zM4.5 7h.01M8 7h.01M11.5 7h.01M5.5 9.5h5",
  left: "M10 4 6 8l4 4",
  right: "M6 4l4 4-4 4",
  play: "M5.5 3.5 12 8l-6.5 4.5z",
  leave: "M9 3H3.5v10H9M7 8h6.5M11 5.5 13.5 8 11 10.5",
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
