import { serverNow } from "../app/clock";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { Dialog, DialogTrigger, Popover } from "react-aria-components";
import { Button } from "../app/pieces";
import { oneLine } from "../text/text";
import { chosenTypes, eventTypes, filterOf, isFiltered, moment, typesText, type EventSearch, type Filter } from "./filter";

// Filters selects events. What is chosen goes to the address.
export function Filters({ id, search }: { id: string; search: EventSearch }) {
  const navigate = useNavigate();
  const [text, setText] = useState(search.text ?? "");
  const [seq, setSeq] = useState("");
  const go = (change: EventSearch) => void navigate({ to: "/sessions/$id/events", params: { id }, search: clean({ ...search, ...change }) });
  return (
    <div className="filters" role="search" aria-label="Filter the events">
      <form
        onSubmit={(e) => {
          e.preventDefault();
          go({ text: text.trim(), seq: undefined });
        }}
      >
        <input className="field" type="search" aria-label="Text in the event" placeholder="Text" value={text} onChange={(e) => setText(e.target.value)} />
      </form>
      <form
        className="short"
        onSubmit={(e) => {
          e.preventDefault();
          if (Number(seq) > 0) go({ seq: Number(seq) });
        }}
      >
        <input className="field" inputMode="numeric" aria-label="Go to the event with this number" placeholder="Go to #" value={seq} onChange={(e) => setSeq(e.target.value.replace(/\D/g, ""))} />
      </form>
      <Types chosen={chosenTypes(search.types)} onChange={(types) => go({ types: typesText(types), seq: undefined })} />
      <More search={search} onChange={(change) => go({ ...change, seq: undefined })} />
      <Chosen id={id} search={search} />
    </div>
  );
}

function clean(s: EventSearch): EventSearch {
  return Object.fromEntries(Object.entries(s).filter(([, v]) => v !== undefined && v !== "")) as EventSearch;
}

// Types is the tree of types.
function Types({ chosen, onChange }: { chosen: Set<string>; onChange: (types: Set<string>) => void }) {
  const [draft, setDraft] = useState(chosen);
  const set = (names: string[], on: boolean) => {
    const next = new Set(draft);
    names.forEach((n) => (on ? next.add(n) : next.delete(n)));
    setDraft(next);
  };
  return (
    <DialogTrigger onOpenChange={(open) => (open ? setDraft(chosen) : typesText(draft) !== typesText(chosen) && onChange(draft))}>
      <Button>Types{chosen.size > 0 ? ` (${chosen.size})` : ""}</Button>
      <Popover className="popover" placement="bottom start">
        <Dialog aria-label="Types of events" className="types">
          {Object.entries(eventTypes).map(([group, types]) => {
            const names = types.map((t) => `${group}.${t}`);
            const on = names.filter((n) => draft.has(n)).length;
            return (
              <fieldset key={group}>
                <label className="choice">
                  <input type="checkbox" checked={on === names.length} ref={(el) => void (el && (el.indeterminate = on > 0 && on < names.length))} onChange={(e) => set(names, e.target.checked)} />
                  <strong>{names.length > 1 ? `${group}.*` : names[0]}</strong>
                </label>
                {names.length > 1 &&
                  names.map((n) => (
                    <label key={n} className="choice inner">
                      <input type="checkbox" checked={draft.has(n)} onChange={(e) => set([n], e.target.checked)} /> {n}
                    </label>
                  ))}
              </fieldset>
            );
          })}
          <Button slot="close" look="first">
            Show these
          </Button>
        </Dialog>
      </Popover>
    </DialogTrigger>
  );
}

// More holds the filters that are used less.
function More({ search, onChange }: { search: EventSearch; onChange: (f: Filter) => void }) {
  const [draft, setDraft] = useState<Filter>(search);
  const [wrong, setWrong] = useState("");
  const field = (name: "of" | "actor" | "since" | "until", label: string, hint: string) => (
    <label className="small">
      {label}
      <input className="field" value={draft[name] ?? ""} placeholder={hint} onChange={(e) => setDraft({ ...draft, [name]: e.target.value })} />
    </label>
  );
  const apply = () => {
    const change: Filter = { of: draft.of?.trim() ?? "", actor: draft.actor?.trim() ?? "", since: "", until: "" };
    for (const at of ["since", "until"] as const) {
      if (!draft[at]?.trim()) continue;
      const found = moment(draft[at], serverNow());
      if (!found) return setWrong(`“${oneLine(draft[at], 40)}” is no time. Write 14:02, 2026-03-01 14:02, or an age such as 2h.`);
      change[at] = found;
    }
    onChange(change);
  };
  return (
    <DialogTrigger>
      <Button>More filters…</Button>
      <Popover className="popover" placement="bottom start">
        <Dialog aria-label="More filters">
          <form
            className="form"
            onSubmit={(e) => {
              e.preventDefault();
              apply();
            }}
          >
            {field("of", "Of a turn, call, task, message", "its id")}
            {field("actor", "Actor", "user, runtime, operator …")}
            {field("since", "From", "14:02, or 2h")}
            {field("until", "To", "14:30, or 10m")}
            {wrong && (
              <p className="small tone-bad" role="alert">
                {wrong}
              </p>
            )}
            <Button type="submit" look="first">
              Apply
            </Button>
          </form>
        </Dialog>
      </Popover>
    </DialogTrigger>
  );
}

// Chosen shows each filter that is set, and removes it.
function Chosen({ id, search }: { id: string; search: EventSearch }) {
  const filter = filterOf(search);
  if (!isFiltered(filter)) return null;
  return (
    <ul className="chips" aria-label="Filters that are set">
      {Object.entries(filter).map(([name, value]) => (
        <li key={name}>
          <Link to="/sessions/$id/events" params={{ id }} search={clean({ ...search, [name]: undefined })} aria-label={`Remove the filter ${name} ${oneLine(value, 80)}`}>
            {name}: {oneLine(value, 40)} ✕
          </Link>
        </li>
      ))}
    </ul>
  );
}
