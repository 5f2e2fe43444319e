package effect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// textRepair asks a subagent once more for an answer of the form that was asked for (SA12).
const textRepair = "Your answer does not have the form that was asked for: %s\nAnswer again, with JSON only."

// afterChild tells the parent of what changed with a subagent, once its driver has committed.
func (e *Effects) afterChild(ctx context.Context, d *Drive) {
	s := d.session
	e.cfg.Sign(s.Lineage.Parent) // who waits for it is not idle
	e.cfg.Sign(s.Lineage.Root)
	if s.Stopped != nil {
		e.stopLate(ctx, s)
	}
	state := "at work"
	if s.Turn != nil {
		state = string(s.Turn.ID) // a person may have taken it over
	}
	if _, ended := s.ChildOutcome(); ended {
		state = fmt.Sprintf("ended %d", s.Seq)
	} else if q := s.Question(); q != nil {
		state = string(q.ID)
	}
	if state == d.told {
		return
	}
	d.told = state
	e.tell(ctx, d.ID)
}

// tell tells the parent of a subagent. What cannot be told now is told again until the runtime stops; after that the next
// start tells it.
func (e *Effects) tell(ctx context.Context, child perdure.SessionID) {
	if err := e.tellParent(ctx, child); err == nil || final(err) {
		return
	}
	e.group.Go(func() {
		for attempt := 1; ; attempt++ {
			select {
			case <-time.After(perdure.RetryDelay(min(attempt, 5), 0, string(child)) / 10):
			case <-e.cfg.Runner.Done():
				return
			}
			err := e.tellParent(context.WithoutCancel(ctx), child)
			if err == nil || final(err) {
				return
			}
			e.cfg.Log.Warn("a parent is told again", "child", child, "error", err)
		}
	})
}

// final reports an error that another attempt cannot mend.
func final(err error) bool {
	return store.Broken(err) || errors.Is(err, perdure.NotFound) || errors.Is(err, perdure.Lost)
}

// reflection is what the parent's record of a subagent is to say.
type reflection struct {
	handle   store.Spawn
	task     perdure.Task
	child    *perdure.Session
	outcome  perdure.ChildOutcome
	ended    bool
	result   perdure.ToolResult // of the call, when it ended
	fault    string             // why its answer is not of the form that was asked for
	path     string             // of result.json
	canceled []perdure.Task     // what it left unfinished
}

// errMoved is a subagent that went on while it was looked at.
var errMoved = fmt.Errorf("%w: it went on", perdure.Unavailable)

// tellParent brings the parent's record of a subagent up to what the subagent's own journal says: that it waits for a
// person, or how it ended. It is the same after a crash between the two (SA9, SA10).
func (e *Effects) tellParent(ctx context.Context, child perdure.SessionID) error {
	ctx = context.WithoutCancel(ctx)
	var r reflection
	err := e.cfg.Store.View(ctx, func(reader store.Reader) (err error) {
		r, err = e.reflect(reader, child)
		return err
	})
	if err != nil || r.handle.State == store.SpawnSettled || !r.ended && !r.asks() {
		return err
	}
	if r.ended && r.fault == "" {
		r.publish(e)
	}
	err = e.work.InTx(ctx, func(tx store.Tx) error {
		now, err := e.reflect(tx, child)
		switch {
		case err != nil:
			return err
		case now.handle.State == store.SpawnSettled:
			return nil
		case now.child.Seq != r.child.Seq:
			return errMoved
		case !r.ended:
			return e.reflectQuestion(tx, now)
		case r.fault != "" && now.handle.Repairs == 0:
			return e.askChildAgain(tx, now, r.fault)
		}
		now.path = r.path
		r.canceled, err = e.reflectEnd(tx, now)
		return err
	})
	if !errors.Is(err, perdure.Lost) { // also when the answer of the commit was lost: who tries again finds nothing to tell
		e.cfg.Wake(r.task.Session)
		e.cfg.Wake(child) // it may be asked once more
	}
	if err != nil {
		return fmt.Errorf("tell the parent of %s: %w", child, err)
	}
	for _, task := range r.canceled {
		e.pushCancel(ctx, task)
	}
	return nil
}

// reflect reads what there is to tell.
func (e *Effects) reflect(reader store.Reader, child perdure.SessionID) (r reflection, err error) {
	if r.handle, err = reader.SpawnOf(child); err != nil || r.handle.State == store.SpawnSettled {
		return r, err
	}
	if r.task, err = reader.Task(r.handle.Key.Session, r.handle.Task); err != nil {
		return r, err
	}
	if r.child, err = e.Fold(reader, child); err != nil {
		return r, err
	}
	r.outcome, r.ended = r.child.ChildOutcome()
	if r.takenOver() { // what comes of a person's turn there is theirs, and the cancel stands
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

// takenOver reports whether a person spoke to the subagent after it was canceled, and before its end was told.
func (r *reflection) takenOver() bool { return r.task.CancelRequested() && r.child.Stopped == nil }

// judge makes the call's result of the subagent's outcome.
func (r *reflection) judge() {
	call := r.handle.Key.Call
	if r.outcome.State == perdure.TaskSucceeded {
		result, ok := perdure.ChildResult(r.outcome.Answer, len(r.handle.Schema) > 0)
		switch {
		case !ok:
			r.fault = "it is no JSON"
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

// asks reports whether the record says other than the subagent what it waits for.
func (r *reflection) asks() bool {
	q, known := r.child.Question(), r.task.InputRequest
	return r.task.State.Live() && (q == nil) != (known == nil) || q != nil && known != nil && q.ID != known.ID
}

// publish writes result.json. It is a convenience: record and handle stand.
func (r *reflection) publish(e *Effects) {
	path := r.task.ArtifactDir() + "/result.json"
	if err := e.writeFile(byTask(r.task), tool.FileWrite{Path: path, Content: resultContent(r.result.Result).text}); err != nil {
		e.cfg.Log.Warn("a subagent's result was not written", "task", r.task.ID, "error", err)
		return
	}
	r.path = path
}

// reflectQuestion shows what the subagent waits for a person with, or that it does not any more (SA10).
func (e *Effects) reflectQuestion(tx store.Tx, r reflection) error {
	q := r.child.Question()
	if q == nil {
		if r.task.State != perdure.TaskAwaitingInput {
			return nil
		}
		_, err := e.updateTask(tx, r.task, perdure.TaskUpdate{Attempt: r.task.Attempt, State: perdure.TaskRunning})
		return err
	}
	var more []perdure.Fact
	said := perdure.TaskMessage{ID: NewID[perdure.TaskMessageID](), Task: r.task.ID, Direction: perdure.Outbound, Text: q.Prompt, CreatedAt: tx.Now()}
	if q.Kind == "question" { // the model may answer it; an approval is a person's
		more = append(more, e.notice(r.task, said, string(q.ID)))
	}
	change, err := e.updateTask(tx, r.task, perdure.TaskUpdate{Attempt: r.task.Attempt, InputRequest: q}, more...)
	if err != nil || change.Answer != perdure.Updated {
		return err
	}
	return tx.AddTaskMessage(said)
}

// askChildAgain asks the subagent for an answer that has the form (SA12).
func (e *Effects) askChildAgain(tx store.Tx, r reflection, fault string) error {
	if _, err := tx.RepairSpawn(r.handle.Key, r.handle.Token); err != nil {
		return err
	}
	events := []perdure.Event{wordOfParent(r.child.ID, "repair", fmt.Sprintf(textRepair, fault), false)}
	stamp(events, tx.Now())
	return tx.Append(r.child.ID, events)
}

// reflectEnd is the one commit of a subagent's end: the parent's record with its outbox row, the handle, the ledger's row of
// a call that left its turn, and the cancel of what the subagent left unfinished (SA9, SA11).
func (e *Effects) reflectEnd(tx store.Tx, r reflection) ([]perdure.Task, error) {
	u := perdure.TaskUpdate{Attempt: r.task.Attempt, State: r.outcome.State, Detail: r.outcome.Detail, Error: r.outcome.Error, ResultPath: r.path}
	u.Summary, u.Result = perdure.Summarise(r.result.Result), perdure.ShortResult(r.result.Result, r.path)
	if r.outcome.Error != nil {
		u.Summary = r.outcome.Error.Message
	}
	if u.State == perdure.TaskCanceled {
		u.Summary = "Canceled by request."
		if r.task.Lane == perdure.Foreground && r.task.CancelBy == byRuntime {
			u.Wake = perdure.WakeNotify // its call was ended, which the model knows: no turn begins for it
		}
	}
	var more []perdure.Fact
	if r.task.CancelRequested() && r.task.State.Live() {
		more = append(more, perdure.TaskCancelReceipt{Receipt: perdure.CancelReceipt{
			RequestedAt: r.task.CancelRequestedAt, SignalledAt: r.task.CancelRequestedAt, DeadAt: tx.Now(),
		}})
	}
	if _, err := e.updateTask(tx, r.task, u, more...); err != nil {
		return nil, err
	}
	if err := tx.SettleSpawn(r.handle.Key, r.handle.Token, r.outcome.State, r.result.Result); err != nil {
		return nil, err
	}
	row, err := tx.Call(r.handle.Key)
	if err != nil {
		return nil, err
	}
	if row.State == perdure.CallRunning && row.Task == r.task.ID {
		result := tool.Cut(r.result, tool.ResultLimit, r.path) // the handle and result.json have the whole (TL16)
		if err := tx.Settle(row.Key, row.Token, perdure.CallSettled, result); err != nil {
			return nil, err
		}
	}
	var canceled []perdure.Task
	for _, task := range r.child.OpenTasks() {
		if r.takenOver() {
			break // a person's by now
		}
		tree, err := e.cancelTree(tx, task, CancelWish{By: "runtime", Why: "its session's work is over"})
		if err != nil {
			return nil, err
		}
		canceled = append(canceled, tree...)
	}
	return canceled, nil
}

// watchAgain takes the record of a subagent over from a dead worker: nothing of it ran there. What the subagent's journal
// says by now is told (RC17), also when it is not known whether the record is ours: who tells is not fenced by it.
func (e *Effects) watchAgain(ctx context.Context, task perdure.Task) error {
	err := e.work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		u := perdure.TaskUpdate{
			Attempt: task.Attempt, IncrementAttempt: true, Worker: e.cfg.Worker, Detail: fmt.Sprintf("re-attached (attempt %d)", task.Attempt+1),
		}
		change, err := e.updateTask(tx, task, u, perdure.TaskReattached{Attempt: task.Attempt + 1, How: perdure.Reattach})
		if err == nil && change.Answer != perdure.Updated {
			err = perdure.Lost
		}
		return err
	})
	if errors.Is(err, perdure.Lost) {
		return err
	}
	if task.Lane == perdure.Foreground && e.callIsOver(ctx, task) {
		e.forsake(ctx, perdure.CallKey{Session: task.Session, Call: task.Call}, "its call has ended")
	}
	e.tell(ctx, task.Links.ChildSession)
	return err
}

// endsByChild reports whether a task is a subagent's that was made: then its own journal says how it ended.
func (e *Effects) endsByChild(task perdure.Task) bool {
	if task.Kind != perdure.KindSubagent {
		return false
	}
	var stored perdure.Task
	err := e.readBack(context.Background(), func(r store.Reader) (err error) {
		stored, err = r.Task(task.Session, task.ID)
		return err
	})
	return err != nil || stored.Links.ChildSession != ""
}

// callIsOver reports whether the call that waits for a subagent has its result: then nobody waits any more.
func (e *Effects) callIsOver(ctx context.Context, task perdure.Task) bool {
	var row perdure.Call
	err := e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		row, err = r.Call(perdure.CallKey{Session: task.Session, Call: task.Call})
		return err
	})
	return err == nil && row.State != perdure.CallRunning
}

// answerChild hands the answer to what a subagent asked on to whoever below it asked (SA10).
func (e *Effects) answerChild(ctx context.Context, task perdure.Task, m perdure.TaskMessage) (perdure.TaskMessageID, error) {
	var asks perdure.Task
	err := e.cfg.Store.View(ctx, func(r store.Reader) error {
		open, err := r.Tasks(store.TaskFilter{Session: task.Links.ChildSession, States: []perdure.TaskState{perdure.TaskAwaitingInput}})
		for _, t := range open {
			if t.InputRequest != nil && t.InputRequest.ID == m.InReplyTo {
				asks = t
			}
		}
		return err
	})
	switch {
	case err != nil:
		return "", err
	case asks.ID != "":
		return e.SendTask(ctx, asks.ID, m)
	case task.InputRequest != nil && task.InputRequest.ID == m.InReplyTo && task.InputRequest.Kind == "approval":
		return "", fmt.Errorf("send to task %s: %w: this needs an approval, not a message", task.ID, perdure.Conflict)
	}
	return "", fmt.Errorf("send to task %s: %w: already answered", task.ID, perdure.Conflict)
}

// tellChild hands a message of the parent's model to a subagent, as a message in its session.
func (e *Effects) tellChild(ctx context.Context, id perdure.TaskID, m perdure.TaskMessage) (perdure.TaskMessageID, error) {
	var task perdure.Task
	err := e.work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) (err error) {
		if task, err = tx.Task("", id); err != nil {
			return err
		}
		known, err := sentBefore(tx, id, m.ID)
		switch {
		case known || err != nil:
			return err
		case task.State.Terminal():
			return fmt.Errorf("%w: already settled: the task is %s", perdure.Conflict, task.State)
		case task.CancelRequested(): // nothing starts there any more that could read it
			return fmt.Errorf("%w: already settled: the task is being canceled", perdure.Conflict)
		}
		m.Task, m.Direction, m.CreatedAt = id, perdure.Inbound, tx.Now()
		if _, err := e.updateTask(tx, task, perdure.TaskUpdate{Attempt: task.Attempt}, perdure.TaskMessageReceived{Message: m}); err != nil {
			return err
		}
		if err := tx.AddTaskMessage(m); err != nil {
			return err
		}
		events := []perdure.Event{wordOfParent(task.Links.ChildSession, string(m.ID), m.PlainText(), true)}
		stamp(events, tx.Now())
		return tx.Append(task.Links.ChildSession, events)
	})
	if err != nil && e.wasSent(ctx, id, m.ID, err) {
		err = nil
	}
	if err != nil {
		return "", fmt.Errorf("send to task %s: %w", id, err)
	}
	e.cfg.Wake(task.Links.ChildSession)
	return m.ID, nil
}

// wasSent reads back whether a message was committed whose answer was lost: whoever is told that it was not sends it again.
func (e *Effects) wasSent(ctx context.Context, task perdure.TaskID, id perdure.TaskMessageID, err error) (sent bool) {
	if refusedWrite(err) || errors.Is(err, perdure.Lost) {
		return false
	}
	err = e.readBack(ctx, func(r store.Reader) (err error) {
		sent, err = sentBefore(r, task, id)
		return err
	})
	return sent && err == nil
}

// TellOwn tells this worker's parents what their subagents' journals say. Where the store is shared, another worker may have
// driven a subagent to its end and died before it told. Each worker does this for its own.
func (e *Effects) TellOwn(ctx context.Context) {
	var tasks []perdure.Task
	err := e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		tasks, err = r.Tasks(store.TaskFilter{
			Worker: e.cfg.Worker, Kind: perdure.KindSubagent, States: []perdure.TaskState{perdure.TaskRunning, perdure.TaskAwaitingInput},
		})
		return err
	})
	for _, task := range tasks {
		if task.Links.ChildSession == "" || err != nil {
			continue
		}
		err = e.tellParent(ctx, task.Links.ChildSession)
		if errors.Is(err, perdure.Conflict) || errors.Is(err, errMoved) { // of this one only
			err = nil
		}
	}
	if err != nil {
		e.cfg.Log.Warn("parents are told with the next round", "error", err)
	}
}
