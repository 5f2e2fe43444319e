package subagent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/environment"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// textRepair asks a subagent once more for an answer of the requested form.
const textRepair = "Your answer does not have the requested form: %s\nAnswer again, with JSON only."

// AfterCommit notifies the parent of changes of a subagent, after its driver has committed.
// reported is the state that the parent was last notified of; the new one is returned.
func (su *Subagents) AfterCommit(ctx context.Context, s *perdure.Session, reported string) string {
	su.core.ReportActivity(s.Lineage.Parent) // a session that waits for its subagent is not idle
	su.core.ReportActivity(s.Lineage.Root)
	if s.Stopped != nil {
		su.cancelLateStarts(ctx, s)
	}
	state := "running"
	if s.Turn != nil {
		state = string(s.Turn.ID) // a person may have started a turn after a cancel
	}
	if _, ended := s.ChildOutcome(); ended {
		state = fmt.Sprintf("ended %d", s.Seq)
	} else if q := s.PendingQuestion(); q != nil {
		state = string(q.ID)
	}
	if state != reported {
		su.notifyParent(ctx, s.ID)
	}
	return state
}

// notifyParent brings the parent's record of a subagent up to date. On an error it retries until
// the runner stops; after that the next start does it.
func (su *Subagents) notifyParent(ctx context.Context, child perdure.SessionID) {
	if err := su.updateParent(ctx, child); err == nil || core.IsFinal(err) {
		return
	}
	su.core.Group.Go(func() {
		for attempt := 1; ; attempt++ {
			select {
			case <-time.After(perdure.RetryDelay(min(attempt, 5), 0, string(child)) / 10):
			case <-su.core.Runner.Done():
				return
			}
			err := su.updateParent(context.WithoutCancel(ctx), child)
			if err == nil || core.IsFinal(err) {
				return
			}
			su.core.Log.Warn("parent update retried", "child", child, "error", err)
		}
	})
}

// cancelLateStarts cancels what a stopped subagent was starting at the time of the stop: the commit
// of the stop could not see it.
func (su *Subagents) cancelLateStarts(ctx context.Context, s *perdure.Session) {
	wish := taskrecord.CancelIntent{By: s.Stopped.By, Why: s.Stopped.Reason, Force: s.Stopped.Force}
	for _, task := range s.OpenTasks() {
		if !wish.Recorded(task) {
			su.tasks.CancelWithRetry(ctx, task.ID, wish)
		}
	}
}

// parentUpdate is what the subagent's journal says about the parent's record.
type parentUpdate struct {
	handle   store.Spawn
	task     perdure.Task
	child    *perdure.Session
	outcome  perdure.ChildOutcome
	ended    bool
	result   perdure.ToolResult // of the call, if the subagent has ended
	fault    string             // why the answer does not have the requested form
	path     string             // of result.json
	canceled []perdure.Task     // the subagent's unfinished tasks
}

// resumedByUser reports whether a person sent a message to the subagent after it was canceled and
// before its end was recorded.
func (r *parentUpdate) resumedByUser() bool {
	return r.task.CancelRequested() && r.child.Stopped == nil
}

// judge derives the call's result from the subagent's outcome.
func (r *parentUpdate) judge() {
	call := r.handle.Key.Call
	if r.outcome.State == perdure.TaskSucceeded {
		result, ok := perdure.ChildResult(r.outcome.Answer, len(r.handle.Schema) > 0)
		switch {
		case !ok:
			r.fault = "it is not valid JSON"
		case len(r.handle.Schema) > 0:
			r.fault = tool.CheckJSON(r.handle.Schema, result)
		}
		if r.fault == "" {
			r.result = perdure.ToolResult{CallID: call, Result: result}
			return
		}
		if r.handle.Repairs > 0 {
			r.outcome = perdure.ChildOutcome{State: perdure.TaskFailed, Detail: "failed", Error: &perdure.TaskError{
				Kind: perdure.ErrorSchema, Message: "the subagent's answer does not match the schema: " + r.fault,
			}}
			r.fault = ""
		}
	}
	switch {
	case r.outcome.Error != nil && r.outcome.Error.Kind == perdure.ErrorInternal:
		r.outcome.Error.Message = perdure.GenericToolError
		fallthrough
	case r.outcome.Error != nil:
		r.result = perdure.Failed(call, r.outcome.Error.Kind, r.outcome.Error.Message)
	default:
		r.result = perdure.Failed(call, perdure.ErrorCanceled, "The subagent was canceled.")
	}
}

// asks reports whether the parent's record differs from the subagent in what it waits for.
func (r *parentUpdate) asks() bool {
	q, known := r.child.PendingQuestion(), r.task.InputRequest
	return r.task.State.Live() && (q == nil) != (known == nil) || q != nil && known != nil && q.ID != known.ID
}

// publish writes result.json. The file is only a convenience: the task's record and the handle hold
// the result.
func (r *parentUpdate) publish(su *Subagents) {
	path := r.task.ArtifactDir() + "/result.json"
	if err := su.environment.WriteFile(environment.CallOfTask(r.task), tool.FileWrite{Path: path,
		Content: taskrun.ResultContent(r.result.Result).Text}); err != nil {
		su.core.Log.Warn("subagent result file not written", "task", r.task.ID, "error", err)
		return
	}
	r.path = path
}

// errChildMoved says that the subagent continued after its journal was read.
var errChildMoved = fmt.Errorf("%w: the subagent continued in the meantime", perdure.Unavailable)

// updateParent brings the parent's record of a subagent up to what the subagent's own journal says:
// that it waits for a person, or how it ended. Only the journal decides, so a crash between the
// subagent's commit and this one loses nothing: the next call of updateParent does the same.
func (su *Subagents) updateParent(ctx context.Context, child perdure.SessionID) error {
	ctx = context.WithoutCancel(ctx)
	var r parentUpdate
	err := su.core.Store.View(ctx, func(reader store.Reader) (err error) {
		r, err = su.readParentUpdate(reader, child)
		return err
	})
	if err != nil || r.handle.State == store.SpawnSettled || !r.ended && !r.asks() {
		return err
	}
	if r.ended && r.fault == "" {
		r.publish(su)
	}
	err = su.core.Work.InTx(ctx, func(tx store.Tx) error {
		now, err := su.readParentUpdate(tx.Reader(), child)
		switch {
		case err != nil:
			return err
		case now.handle.State == store.SpawnSettled:
			return nil
		case now.child.Seq != r.child.Seq:
			return errChildMoved
		case !r.ended:
			return su.updateParentQuestion(tx, now)
		case r.fault != "" && now.handle.Repairs == 0:
			return su.askChildAgain(tx, now, r.fault)
		}
		now.path = r.path
		r.canceled, err = su.settleInParent(tx, now)
		return err
	})
	// Also if the answer of the commit was lost: the next attempt then finds nothing to do.
	if !errors.Is(err, perdure.Lost) {
		su.core.Wake(r.task.Session)
		su.core.Wake(child) // it may be asked to repair its answer
	}
	if err != nil {
		return fmt.Errorf("tell the parent of %s: %w", child, err)
	}
	for _, task := range r.canceled {
		su.tasks.SignalCancel(ctx, task)
	}
	return nil
}

// readParentUpdate reads what the parent's record should say.
func (su *Subagents) readParentUpdate(reader store.Reader, child perdure.SessionID) (r parentUpdate, err error) {
	if r.handle, err = reader.Spawns().OfChild(child); err != nil || r.handle.State == store.SpawnSettled {
		return r, err
	}
	if r.task, err = reader.Tasks().Get(r.handle.Key.Session, r.handle.Task); err != nil {
		return r, err
	}
	if r.child, err = su.core.Fold(reader, child); err != nil {
		return r, err
	}
	r.outcome, r.ended = r.child.ChildOutcome()
	if r.resumedByUser() { // a person has continued the subagent: what follows there is theirs, and the cancel stands
		r.outcome = perdure.ChildOutcome{State: perdure.TaskCanceled, Detail: "canceled"}
		r.ended = r.child.Turn == nil || r.child.Turn.Interrupt == nil
		for _, task := range r.child.OpenTasks() {
			r.ended = r.ended && !task.CancelRequested()
		}
	}
	if r.ended {
		r.judge()
	}
	return r, nil
}

// updateParentQuestion records the question for which the subagent waits, or that it waits no
// longer.
func (su *Subagents) updateParentQuestion(tx store.Tx, r parentUpdate) error {
	q := r.child.PendingQuestion()
	if q == nil {
		if r.task.State != perdure.TaskAwaitingInput {
			return nil
		}
		_, err := su.records.Update(tx, r.task, perdure.TaskUpdate{Attempt: r.task.Attempt, State: perdure.TaskRunning})
		return err
	}
	var more []perdure.Fact
	message := perdure.TaskMessage{ID: core.NewID[perdure.TaskMessageID](), Task: r.task.ID, Direction: perdure.Outbound,
		Text: q.Prompt, CreatedAt: tx.Now()}
	if q.Kind == "question" { // the model may answer it; an approval needs a person
		more = append(more, su.records.MessageNotice(r.task, message, string(q.ID)))
	}
	change, err := su.records.Update(tx, r.task, perdure.TaskUpdate{Attempt: r.task.Attempt, InputRequest: q}, more...)
	if err != nil || change.Answer != perdure.Updated {
		return err
	}
	return tx.Tasks().AddMessage(message)
}

// askChildAgain asks the subagent to repair the form of its answer.
func (su *Subagents) askChildAgain(tx store.Tx, r parentUpdate, fault string) error {
	if _, err := tx.Spawns().Repair(r.handle.Key, r.handle.Token); err != nil {
		return err
	}
	events := []perdure.Event{parentMessage(r.child.ID, "repair", fmt.Sprintf(textRepair, fault), false)}
	core.Stamp(events, tx.Now())
	return tx.Journal().Append(r.child.ID, events)
}

// settleInParent is the one commit of a subagent's end: the parent's record with its outbox row,
// the handle, the ledger row of a call that left its turn, and the cancel of the subagent's
// unfinished tasks.
func (su *Subagents) settleInParent(tx store.Tx, r parentUpdate) ([]perdure.Task, error) {
	u := perdure.TaskUpdate{Attempt: r.task.Attempt, State: r.outcome.State, Detail: r.outcome.Detail,
		Error: r.outcome.Error, ResultPath: r.path}
	u.Summary, u.Result = perdure.Summarise(r.result.Result), perdure.ShortResult(r.result.Result, r.path)
	if r.outcome.Error != nil {
		u.Summary = r.outcome.Error.Message
	}
	if u.State == perdure.TaskCanceled {
		u.Summary = "Canceled by request."
		if r.task.Lane == perdure.Foreground && r.task.CancelBy == core.ActorRuntime {
			// The call has ended, and the model knows it: no turn starts for this.
			u.Wake = perdure.WakeNotify
		}
	}
	var more []perdure.Fact
	if r.task.CancelRequested() && r.task.State.Live() {
		more = append(more, perdure.TaskCancelReceipt{Receipt: perdure.CancelReceipt{
			RequestedAt: r.task.CancelRequestedAt, SignalledAt: r.task.CancelRequestedAt, DeadAt: tx.Now(),
		}})
	}
	if _, err := su.records.Update(tx, r.task, u, more...); err != nil {
		return nil, err
	}
	if err := tx.Spawns().Settle(r.handle.Key, r.handle.Token, r.outcome.State, r.result.Result); err != nil {
		return nil, err
	}
	row, err := tx.Calls().Get(r.handle.Key)
	if err != nil {
		return nil, err
	}
	if row.State == perdure.CallRunning && row.Task == r.task.ID {
		result := tool.Cut(r.result, su.core.Limits.ResultBytes, r.path) // handle and result.json have the full result
		if err := tx.Calls().Settle(row.Key, row.Token, perdure.CallSettled, result); err != nil {
			return nil, err
		}
	}
	var canceled []perdure.Task
	for _, task := range r.child.OpenTasks() {
		if r.resumedByUser() {
			break // a person has continued the subagent
		}
		tree, err := su.records.CancelTree(tx, task, taskrecord.CancelIntent{By: "runtime", Why: "the subagent has ended"})
		if err != nil {
			return nil, err
		}
		canceled = append(canceled, tree...)
	}
	return canceled, nil
}

// Adopt takes over the record of a subagent from a dead worker. No work ran there: the
// record only has to follow the subagent's journal. This happens even if it is in doubt whether the
// record is ours, because updating the parent is not fenced by it.
func (su *Subagents) Adopt(ctx context.Context, task perdure.Task) error {
	err := su.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		u := perdure.TaskUpdate{
			Attempt: task.Attempt, IncrementAttempt: true,
			Worker: su.core.Worker, Detail: fmt.Sprintf("re-attached (attempt %d)", task.Attempt+1),
		}
		change, err := su.records.Update(tx, task, u, perdure.TaskReattached{Attempt: task.Attempt + 1,
			How: perdure.TakeOverReattach})
		if err == nil && change.Answer != perdure.Updated {
			err = perdure.Lost
		}
		return err
	})
	if errors.Is(err, perdure.Lost) {
		return err
	}
	if task.Lane == perdure.Foreground && su.tasks.CallEnded(ctx, task) {
		su.tasks.Abandon(ctx, perdure.CallKey{Session: task.Session, Call: task.Call}, "the call has ended")
	}
	su.notifyParent(ctx, task.Links.ChildSession)
	return err
}

// tellChild sends a message of the parent's model to a subagent, as a message in its session.
func (su *Subagents) tellChild(ctx context.Context, id perdure.TaskID,
	m perdure.TaskMessage) (perdure.TaskMessageID, error) {
	var task perdure.Task
	err := su.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) (err error) {
		if task, err = tx.Tasks().Get("", id); err != nil {
			return err
		}
		known, err := taskrecord.AlreadySent(tx.Reader(), id, m.ID)
		switch {
		case known || err != nil:
			return err
		case task.State.Terminal():
			return fmt.Errorf("%w: already settled: the task is %s", perdure.Conflict, task.State)
		case task.CancelRequested(): // the subagent starts nothing any more that could read it
			return fmt.Errorf("%w: already settled: the task is being canceled", perdure.Conflict)
		}
		m.Task, m.Direction, m.CreatedAt = id, perdure.Inbound, tx.Now()
		if _, err := su.records.Update(tx, task, perdure.TaskUpdate{Attempt: task.Attempt},
			perdure.TaskMessageReceived{Message: m}); err != nil {
			return err
		}
		if err := tx.Tasks().AddMessage(m); err != nil {
			return err
		}
		events := []perdure.Event{parentMessage(task.Links.ChildSession, string(m.ID), m.PlainText(), true)}
		core.Stamp(events, tx.Now())
		return tx.Journal().Append(task.Links.ChildSession, events)
	})
	if err != nil && su.tasks.WasSent(ctx, id, m.ID, err) {
		err = nil
	}
	if err != nil {
		return "", fmt.Errorf("send to task %s: %w", id, err)
	}
	su.core.Wake(task.Links.ChildSession)
	return m.ID, nil
}

// UpdateParents updates the parents' records of the subagents that this worker owns. If the store
// is shared, another worker may have driven a subagent to its end and crashed before it updated the
// parent.
func (su *Subagents) UpdateParents(ctx context.Context) {
	var tasks []perdure.Task
	err := su.core.Store.View(ctx, func(r store.Reader) (err error) {
		tasks, err = r.Tasks().List(store.TaskFilter{
			Worker: su.core.Worker,
			Kind:   perdure.KindSubagent, States: []perdure.TaskState{perdure.TaskRunning, perdure.TaskAwaitingInput},
		})
		return err
	})
	for _, task := range tasks {
		if task.Links.ChildSession == "" || err != nil {
			continue
		}
		err = su.updateParent(ctx, task.Links.ChildSession)
		if errors.Is(err, perdure.Conflict) || errors.Is(err, errChildMoved) { // concerns this subagent only
			err = nil
		}
	}
	if err != nil {
		su.core.Log.Warn("parent updates left for the next pass", "error", err)
	}
}
