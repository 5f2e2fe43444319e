import { useRouter } from "@tanstack/react-router";

// Page is one entry of the rail. key is the letter that leads there after g; more: on a narrow screen
// the page is behind "More".
export type Page = { to: string; icon: string; word: string; key: string; more?: boolean };

const all: Page[] = [
  { to: "/sessions", icon: "list", word: "Sessions", key: "s" },
  { to: "/tasks", icon: "task", word: "Tasks", key: "t" },
  { to: "/timeline", icon: "timeline", word: "Timeline", key: "l", more: true },
  { to: "/schedules", icon: "calendar", word: "Schedules", key: "h", more: true },
  { to: "/approvals", icon: "shield", word: "Approvals", key: "a" },
  { to: "/events", icon: "pulse", word: "Events", key: "e", more: true },
  { to: "/costs", icon: "coin", word: "Costs", key: "c", more: true },
  { to: "/settings", icon: "sliders", word: "Settings", key: ",", more: true },
];

// usePages returns the pages that there are: those with a route.
export function usePages(): Page[] {
  const routes = Object.keys(useRouter().routesByPath);
  return all.filter((p) => routes.some((r) => r === p.to || r.startsWith(`${p.to}/`)));
}

// pageOf returns the page that a path belongs to.
export function pageOf(pages: Page[], path: string): Page | undefined {
  return pages.find((p) => path === p.to || path.startsWith(`${p.to}/`));
}
