import { Link } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { signOut } from "../principal/principal";
import { Icon } from "./icon";
import { usePages } from "./pages";
import { Button } from "./pieces";
import { useCounts } from "./badge";
import "./rail.css";

const More = lazy(async () => ({ default: (await import("./more")).More }));

const setting = "perdure.rail";

// Rail leads to the pages: at the left, wide or narrow; under 768 px at the bottom, with the pages that
// do not fit behind "More".
export function Rail({ name, onKeys }: { name: string; onKeys: () => void }) {
  const pages = usePages();
  const counts = useCounts();
  const [narrow, setNarrow] = useState(() => (localStorage.getItem(setting) ?? (window.innerWidth < 1024 ? "narrow" : "wide")) === "narrow");
  const [more, setMore] = useState(false);
  const fold = () => {
    localStorage.setItem(setting, narrow ? "wide" : "narrow");
    setNarrow(!narrow);
  };
  const count = (to: string) => (to === "/approvals" ? counts.approvals : 0);
  return (
    <nav className="rail" aria-label="Pages" data-narrow={narrow || undefined}>
      <ul>
        {pages.map((p) => (
          <li key={p.to} data-more={p.more || undefined}>
            <Link to={p.to as "/sessions"} title={narrow ? p.word : undefined}>
              <Icon name={p.icon} />
              <span className="word">{p.word}</span>
              {count(p.to) > 0 && (
                <span className="count">
                  {count(p.to)}
                  <span className="visually-hidden"> open</span>
                </span>
              )}
            </Link>
          </li>
        ))}
        <li className="more">
          <Button look="bare" onPress={() => setMore(true)}>
            <Icon name="more" />
            <span className="word">More</span>
          </Button>
        </li>
      </ul>
      <div className="foot">
        <Button look="bare" onPress={onKeys} aria-label="Keys">
          <Icon name="keys" />
          <span className="word">Keys</span>
        </Button>
        <Button look="bare" onPress={() => void signOut()} aria-label={`Sign out (${name})`}>
          <Icon name="leave" />
          <span className="word">Sign out</span>
        </Button>
        <Button look="bare" onPress={fold} aria-label={narrow ? "Widen the rail" : "Narrow the rail"}>
          <Icon name={narrow ? "right" : "left"} />
          <span className="word">Narrow</span>
        </Button>
      </div>
      {more && (
        <Suspense>
          <More name={name} pages={pages} onKeys={onKeys} onClose={() => setMore(false)} />
        </Suspense>
      )}
    </nav>
  );
}
