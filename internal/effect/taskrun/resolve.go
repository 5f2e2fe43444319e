package taskrun

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/environment"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Resolution is an operator's resolution of an unknown outcome.
type Resolution struct {
	Answer perdure.ResolveAnswer
	Result json.RawMessage // only with Happened; empty: null
	By     string
	Note   string
}

// Record returns the record of a resolved call. It is not used for ResolveRunAgain, which has no
// result yet.
func (w Resolution) Record(id perdure.CallID) perdure.ToolResult {
	if w.Answer == perdure.ResolveDidNotHappen {
		return perdure.Failed(id, perdure.ErrorTool, TextDidNotHappen)
	}
	body := w.Result
	if len(body) == 0 {
		body = json.RawMessage(`null`)
	}
	return perdure.ToolResult{CallID: id, Result: body}
}

// update returns the change of the task's record.
func (w Resolution) update(task perdure.Task) perdure.TaskUpdate {
	u := perdure.TaskUpdate{Attempt: task.Attempt, Detail: "resolved: " + w.Answer.Outcome()}
	switch w.Answer {
	case perdure.ResolveHappened:
		u.State, u.Resolve, u.Summary = perdure.TaskSucceeded, true, perdure.Summarise(w.Record("").Result)
	case perdure.ResolveDidNotHappen:
		u.State, u.Resolve, u.Summary = perdure.TaskFailed, true, TextDidNotHappen
		u.Error = &perdure.TaskError{Kind: perdure.ErrorTool, Message: TextDidNotHappen}
	default:
		u.State, u.Rerun, u.IncrementAttempt = perdure.TaskQueued, true, true
	}
	return u
}

// TextDidNotHappen is recorded as the error of a call that did not happen.
const TextDidNotHappen = "did not happen"

// Resolve resolves a task of unknown outcome: it succeeded, it failed, or it is queued again
// under a new attempt with the same idempotency key. The outcome is delivered again. Conflict: the
// outcome is not unknown.
func (ts *Tasks) Resolve(ctx context.Context, id perdure.TaskID, w Resolution) error {
	var task perdure.Task
	err := ts.core.Store.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		var err error
		if task, err = tx.Tasks().Get("", id); err != nil {
			return err
		}
		if task.State != perdure.TaskUnknown {
			return fmt.Errorf("%w: the task is %s, not unknown", perdure.Conflict, task.State)
		}
		fact := perdure.TaskResolved{Answer: w.Answer, Outcome: w.Answer.Outcome(), By: w.By, Note: w.Note}
		if _, err := ts.records.Update(tx, task, w.update(task), fact); err != nil || w.Answer == perdure.ResolveRunAgain {
			return err
		}
		row, err := tx.Calls().Get(task.LedgerKey())
		if err != nil {
			return err
		}
		result := w.Record(row.Key.Call)
		row.State, row.Result = perdure.CallSettled, &result
		return tx.Calls().Resolve(row, w.By)
	})
	if task.Session != "" {
		ts.core.Wake(task.Session)
	}
	if err != nil {
		return fmt.Errorf("resolve task %s: %w", id, err)
	}
	ts.rewriteResult(task, w)
	return nil
}

// rewriteResult updates result.json. The file is only a convenience: the task's record and the
// ledger hold the result.
func (ts *Tasks) rewriteResult(task perdure.Task, w Resolution) {
	if w.Answer == perdure.ResolveRunAgain || task.ResultPath == "" {
		return
	}
	body := ResultContent(w.Record("").Result).Text
	if w.Answer == perdure.ResolveDidNotHappen {
		body = prettyJSON(map[string]string{"status": "failed", "error": TextDidNotHappen})
	}
	if err := ts.environment.WriteFile(environment.CallOfTask(task), tool.FileWrite{Path: task.ResultPath, Content: body}); err != nil {
		ts.core.Log.Warn("result file not rewritten", "task", task.ID, "error", err)
	}
}

// DrainReady returns the ended tasks of a session whose delivery is manual, each task once.
func (ts *Tasks) DrainReady(ctx context.Context, id perdure.SessionID) (ready []perdure.Task, err error) {
	err = ts.core.Store.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		ready = nil
		outbox, err := tx.Tasks().Deliveries(id)
		if err != nil {
			return err
		}
		for _, d := range outbox {
			task, err := tx.Tasks().Get(id, d.Task)
			if err != nil {
				return err
			}
			if task.Delivery != perdure.Manual || !task.State.Terminal() || task.Delivered != perdure.NotDelivered {
				continue
			}
			task.Delivered = perdure.DeliveredDrained
			events := []perdure.Event{taskrecord.Event(task, perdure.TaskUpdated{Task: task, Changed: []string{"delivered"}})}
			core.Stamp(events, tx.Now())
			if err := tx.Journal().Append(id, events); err != nil {
				return err
			}
			if _, err := tx.Tasks().Update(id, d.Task,
				perdure.TaskUpdate{Attempt: task.Attempt, Delivered: task.Delivered}); err != nil {
				return err
			}
			if _, err := tx.Tasks().ClaimDeliveries(id, []perdure.TaskID{d.Task}); err != nil {
				return err
			}
			ready = append(ready, task)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("drain tasks of %s: %w", id, err)
	}
	return ready, nil
}

// SetDelivery changes how the result of a live task is delivered.
func (ts *Tasks) SetDelivery(ctx context.Context, id perdure.TaskID, d perdure.Delivery,
	w perdure.Wake) (task perdure.Task, err error) {
	if !d.Valid() || !w.Valid() {
		return task, fmt.Errorf("set delivery of %s: %w: delivery %q, wake %q", id, perdure.Invalid, d, w)
	}
	err = ts.core.Store.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		if task, err = tx.Tasks().Get("", id); err != nil {
			return err
		}
		if task.State.Terminal() {
			return fmt.Errorf("%w: already settled", perdure.Conflict)
		}
		change, err := ts.records.Update(tx, task, perdure.TaskUpdate{Attempt: task.Attempt, Delivery: d, Wake: w})
		task = change.Task
		return err
	})
	if err != nil {
		return task, fmt.Errorf("set delivery of %s: %w", id, err)
	}
	return task, nil
}
