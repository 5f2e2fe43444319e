import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { need } from "../../client";
import { api, queries } from "../app/api";
import { Button, CopyLine, Failure } from "../app/pieces";
import type { Task } from "../event/types";
import { useMay } from "../principal/principal";
import { safe } from "../text/text";
import { fieldsOf, valueOf, type Field } from "./question";

// Answer shows the question of a task, and lets a person answer it. A schema makes a form.
export function Answer({ task }: { task: Task }) {
  const ask = task.input_request!;
  const { may, why } = useMay("write");
  const form = fieldsOf(ask.expected);
  const [values, setValues] = useState<Record<string, string>>({});
  const { answer, fault } = valueOf(form, values);
  const send = useMutation({
    mutationFn: () => need(api.POST("/v1/tasks/{id}/input", { params: { path: { id: task.id } }, body: { id: ask.id, answer } } as never)),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["task", task.id] }),
  });
  const set = (name: string, value: string) => setValues((before) => ({ ...before, [name]: value }));
  return (
    <section className="notice warn" aria-label="Question of the task" data-testid="question">
      <p className="small soft">This task asks. The text comes from the tool.</p>
      <p className="untrusted" dir="auto">
        {safe(ask.prompt)}
      </p>
      {!may ? (
        <p className="small">{why}</p>
      ) : (
        <form
          className="stack"
          onSubmit={(e) => {
            e.preventDefault();
            if (!fault) send.mutate();
          }}
        >
          {form.map((f) => (
            <AnswerField key={f.name} field={f} value={values[f.name] ?? ""} set={(v) => set(f.name, v)} />
          ))}
          {fault && Object.keys(values).length > 0 && <p className="small tone-bad">{fault}</p>}
          {send.error && <Failure error={send.error} />}
          <div className="row-of">
            <Button type="submit" look="first" isDisabled={!!fault || send.isPending}>
              {send.isPending ? "Sending…" : "Answer"}
            </Button>
          </div>
        </form>
      )}
      <CopyLine text={`perdure task input ${task.id} "ANSWER"`} />
    </section>
  );
}

function AnswerField({ field: f, value, set }: { field: Field; value: string; set: (v: string) => void }) {
  if (f.choices) {
    return (
      <fieldset className="answers">
        <legend>{safe(f.label)}</legend>
        {f.choices.map((c) => (
          <label key={c}>
            <input type="radio" name={f.name} checked={value === c} onChange={() => set(c)} /> <span>{safe(c)}</span>
          </label>
        ))}
      </fieldset>
    );
  }
  return (
    <label>
      {safe(f.label)} {!f.required && <span className="soft">(optional)</span>}
      {f.about && <span className="small soft"> {safe(f.about)}</span>}
      {f.type === "json" || f.type === "string" ? (
        <textarea className="field" rows={f.type === "json" ? 4 : 2} dir="auto" value={value} onChange={(e) => set(e.target.value)} spellCheck={f.type === "string"} />
      ) : (
        <input className="field" inputMode="decimal" value={value} onChange={(e) => set(e.target.value)} />
      )}
    </label>
  );
}
