import { useQuery } from "@tanstack/react-query";
import { need } from "../../client";
import { api } from "../app/api";
import { Failure } from "../app/pieces";
import { oneLine } from "../text/text";
import { argsOf, type Form } from "./form";
import { missedWords, overlapWords } from "./look";
import { zones } from "./when";

type Part = { f: Form; set: (change: Partial<Form>) => void };

export function Where({ f, set }: Part) {
  const sessions = useQuery({ queryKey: ["sessions", "roots"], queryFn: ({ signal }) => need(api.GET("/v1/sessions", { signal, params: { query: { limit: 200, roots: true } } })) });
  const items = sessions.data?.items ?? [];
  return (
    <>
      <label>
        Session <span className="soft">(in which it fires, with its rights and budgets)</span>
        <select className="field" value={f.session} onChange={(e) => set({ session: e.target.value })} required>
          <option value="">{sessions.data && items.length === 0 ? "There is no session yet" : "Choose a session"}</option>
          {f.session && !items.some((s) => s.id === f.session) && <option value={f.session}>{f.session}</option>}
          {items.map((s) => (
            <option key={s.id} value={s.id}>
              {oneLine(s.title || s.id, 80)}
            </option>
          ))}
        </select>
      </label>
      {sessions.error && <Failure error={sessions.error} />}
      <label>
        Title <span className="soft">(optional)</span>
        <input className="field" value={f.title} onChange={(e) => set({ title: e.target.value })} maxLength={200} />
      </label>
    </>
  );
}

export function When({ f, set }: Part) {
  return (
    <>
      <fieldset>
        <legend className="visually-hidden">How often</legend>
        <Choice name="kind" checked={f.kind === "cron"} word="Again and again" onChoose={() => set({ kind: "cron" })} />
        <Choice name="kind" checked={f.kind === "once"} word="Once" onChoose={() => set({ kind: "once" })} />
      </fieldset>
      <div className="pair">
        {f.kind === "cron" ? (
          <label>
            Expression
            <input className="field mono" value={f.cron} onChange={(e) => set({ cron: e.target.value })} placeholder="30 7 * * 1-5" spellCheck={false} autoComplete="off" aria-describedby="cron-help" />
          </label>
        ) : (
          <label>
            Date and time
            <input className="field" type="datetime-local" value={f.at} onChange={(e) => set({ at: e.target.value })} />
          </label>
        )}
        <label>
          Time zone
          <input className="field" list="zones" value={f.zone} onChange={(e) => set({ zone: e.target.value })} spellCheck={false} autoComplete="off" />
          <datalist id="zones">
            {zones().map((z) => (
              <option key={z} value={z} />
            ))}
          </datalist>
        </label>
      </div>
      {f.kind === "cron" && (
        <p className="soft small" id="cron-help">
          Minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly, @yearly.
        </p>
      )}
    </>
  );
}

export function What({ f, set }: Part) {
  return (
    <>
      <fieldset>
        <legend className="visually-hidden">What a fire does</legend>
        <Choice name="does" checked={f.does === "message"} word="Send a message to the agent" onChoose={() => set({ does: "message" })} />
        <Choice name="does" checked={f.does === "tool"} word="Run a tool, without the model" onChoose={() => set({ does: "tool" })} />
      </fieldset>
      {f.does === "message" ? (
        <label>
          Message
          <textarea className="field" rows={3} dir="auto" value={f.message} onChange={(e) => set({ message: e.target.value })} />
        </label>
      ) : (
        <>
          <label>
            Tool
            <input className="field mono" value={f.tool} onChange={(e) => set({ tool: e.target.value })} spellCheck={false} autoComplete="off" />
          </label>
          <label>
            Arguments <span className="soft">(a JSON object)</span>
            <textarea className="field mono" rows={3} value={f.args} onChange={(e) => set({ args: e.target.value })} spellCheck={false} aria-invalid={!argsOf(f.args)} />
          </label>
        </>
      )}
    </>
  );
}

export function Rules({ f, set }: Part) {
  const options = (words: Record<string, string>) =>
    Object.entries(words).map(([value, word]) => (
      <option key={value} value={value}>
        {word}
      </option>
    ));
  return (
    <div className="pair">
      <label>
        While one runs
        <select className="field" value={f.overlap} onChange={(e) => set({ overlap: e.target.value })}>
          {options(overlapWords)}
        </select>
      </label>
      <label>
        Missed times
        <select className="field" value={f.missed} onChange={(e) => set({ missed: e.target.value })}>
          {options(missedWords)}
        </select>
      </label>
    </div>
  );
}

function Choice({ name, checked, word, onChoose }: { name: string; checked: boolean; word: string; onChoose: () => void }) {
  return (
    <label>
      <input type="radio" name={name} checked={checked} onChange={onChoose} /> {word}
    </label>
  );
}
