package effect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// taskEvent wraps a fact about a task.
func taskEvent(t perdure.Task, fact perdure.Fact) perdure.Event {
	return perdure.Event{Session: t.Session, Actor: "runtime", Turn: t.Turn, Task: t.ID, Attempt: t.Attempt, Fact: fact}
}

// updateTask writes to a task, with the events that go with it, in the caller's transaction. The session's
// row is locked first, by appending.
func (e *Effects) updateTask(tx store.Tx, t perdure.Task, u perdure.TaskUpdate, more ...perdure.Fact) (perdure.TaskChange, error) {
	stored, err := tx.Task(t.Session, t.ID)
	if err != nil {
		return perdure.TaskChange{}, err
	}
	planned, err := stored.Update(u, tx.Now())
	if err != nil || planned.Answer != perdure.Updated {
		return planned, err
	}
	var events []perdure.Event
	for _, fact := range more {
		events = append(events, taskEvent(planned.Task, fact))
	}
	if planned.Event {
		events = append(events, taskEvent(planned.Task, perdure.TaskUpdated{Task: planned.Task}))
	}
	if len(events) > 0 {
		stamp(events, tx.Now())
		if err := tx.Append(t.Session, events); err != nil {
			return planned, err
		}
	}
	change, err := tx.UpdateTask(t.Session, t.ID, u)
	if err == nil && (change.Answer != planned.Answer || change.Event != planned.Event) { // its row was locked after it was read
		err = fmt.Errorf("%w: task %s changed meanwhile", perdure.Unavailable, t.ID)
	}
	if err != nil || !change.Ended {
		return change, err
	}
	if change.Task.Taken() { // no turn forgets it; where this commit is undone, the task ends with the next one
		e.vault.Drop(perdure.CallKey{Session: t.Session, Call: change.Task.Call})
	}
	if change.Task.Kind == perdure.KindMonitor { // its runs come home, and are paid
		return change, nil
	}
	if err := e.payTask(tx, change.Task); err != nil {
		return change, err
	}
	if err := e.noteRun(tx, change.Task); err != nil {
		return change, err
	}
	if change.Task.Taken() { // its caller reads the end by the handle
		return change, nil
	}
	return change, tx.AddDelivery(store.Delivery{
		Session: t.Session, Task: t.ID, Attempt: change.Task.Attempt, State: change.Task.State, Settled: tx.Now(),
	})
}

// endTask is the end of an attempt: artifacts, then the terminal state, result, ledger, event and outbox row
// in one commit, fenced by the attempt (BG15, DL1). A store that cannot be reached is asked again while this
// process lives; after that recovery decides.
func (e *Effects) endTask(ctx context.Context, t perdure.Task, row perdure.Call, v verdict) {
	for attempt := 1; ; attempt++ {
		ended, result, err := e.finishTask(ctx, t, row, v)
		if err == nil {
			if ended.State.Terminal() {
				e.ends.tell(TaskEnd{Task: ended, Result: recorded(ended, v.unknown, result)})
			}
			break
		}
		if errors.Is(err, perdure.Lost) || store.Broken(err) || errors.Is(err, perdure.NotFound) {
			e.cfg.Log.Warn("a task's end was not recorded here", "task", t.ID, "attempt", t.Attempt, "error", err)
			return
		}
		if !v.apart && e.ownFiles { // an artifact that cannot be written does not stop the end (BG15)
			v.apart = true
			continue
		}
		if errors.Is(err, perdure.Invalid) || errors.Is(err, perdure.Conflict) {
			if v.plain {
				e.cfg.Log.Error("a task's end cannot be recorded", "task", t.ID, "error", err)
				return
			}
			e.cfg.Log.Error("a task's result cannot be recorded", "task", t.ID, "error", err)
			v = e.judgeTask(t, row, tool.Internal(err), v.ended)
			v.plain, v.apart = true, true
		}
		e.cfg.Log.Warn("a task's end is recorded again", "task", t.ID, "error", err)
		select {
		case <-time.After(perdure.RetryDelay(attempt, 0, string(t.ID)) / 10):
		case <-e.cfg.Runner.Done():
			return
		}
	}
	if !t.Taken() { // there is nothing for its session to do
		e.cfg.Wake(t.Session)
	}
	e.cfg.Freed()
}

// verdict is how an attempt ended, for the record and for the artifacts (BG14).
type verdict struct {
	update  perdure.TaskUpdate
	result  perdure.ToolResult // whole; the ledger's is cut once it is known where the whole is stored
	body    content            // result.json
	tail    string             // what output.log ends with
	raw     *string            // replaces the log
	code    *int               // exit code
	ended   dispatch.End
	unknown bool
	silent  bool // nothing stands in the log
	plain   bool // takes the place of a result that the store refused
	apart   bool // its artifacts are written before its end, each by itself: not all of them can be
}

// judgeTask turns the end of an attempt into its record, by the table of BG14.
func (e *Effects) judgeTask(t perdure.Task, row perdure.Call, r tool.Result, end dispatch.End) verdict {
	stopped := end.DidNotStop || end.Cause != "" && !r.IsSuccess() && dispatch.Echoes(r)
	if stopped {
		r = causeResult(end.Cause, row)
	}
	r, withheld := e.gate().After(context.Background(), toolCall(row, t.DeadlineAt), r)
	record := e.wholeRecord(row, r)
	v := verdict{result: record, raw: r.Raw, code: r.ExitCode, ended: end}
	if withheld { // BG5
		text := "[output withheld by tool policy]"
		v.raw = &text
	}
	if t.FromCall() {
		v.update.Result = perdure.ShortResult(record.Result, t.ArtifactDir()+"/result.json")
	}
	switch {
	case stopped && end.Cause == perdure.CauseCanceled || r.ErrorAs == perdure.ErrorCanceled:
		v.update.State, v.update.Summary, v.update.Detail = perdure.TaskCanceled, "Canceled by request.", "canceled"
		v.tail, v.body = "\nCanceled by request.\n", short(prettyJSON(map[string]string{"status": "canceled"}))
		if end.DidNotStop { // whatever it does from now on is lost (RC6)
			v.update.Detail, v.update.IncrementAttempt, v.update.Worker = "did not stop", true, e.cfg.Worker
		}
	case record.ErrorKind == perdure.ErrorUnknown:
		v.unknown = true
		v.update.State, v.update.Summary, v.update.Detail = perdure.TaskUnknown, "Outcome unknown.", "outcome unknown"
		v.body = short(prettyJSON(map[string]string{"status": "unknown"}))
	case record.ConnectionRequired != "":
		v.fail(perdure.ErrorTool, "Background tool requires connection setup: "+record.ConnectionRequired)
	case record.IsError():
		v.fail(record.ErrorKind, record.Error)
	default:
		v.update.State, v.update.Summary, v.update.Detail = perdure.TaskSucceeded, record.Brief(), "completed"
		v.body = resultContent(record.Result)
	}
	return v
}

// settles is the result as the ledger has it. A caller that takes it by its handle gets it whole; for a model it is cut, with
// where the run's files have the whole (TL16).
func (v verdict) settles(t perdure.Task, paths artifactPaths) perdure.ToolResult {
	if t.Taken() && len(v.result.Result) <= resultLimitBytes {
		return v.result
	}
	stored := tool.StoredOutput{Path: paths.result}
	if v.raw != nil {
		stored.RawPath = orElse(paths.raw, paths.log)
	}
	return stored.Cut(v.result, tool.ResultLimit)
}

// fail makes the record of a failure. The task's row is read often, so that its text is cut there; result.json has the whole.
func (v *verdict) fail(kind perdure.ErrorKind, whole string) {
	text := tool.Cut(perdure.Failed("", kind, whole), tool.ResultLimit, "").Error
	v.update.State, v.update.Summary, v.update.Detail = perdure.TaskFailed, text, "failed"
	v.update.Error = &perdure.TaskError{Kind: kind, Message: text}
	v.body = resultContent(prettyJSON(map[string]string{"status": "failed", "error": whole}))
}

// finishTask publishes the artifacts under the fence and settles: in one commit where files are the store's. Lost: another
// attempt has the task. It returns the task and its result as they were stored; the zero task where it had ended before.
func (e *Effects) finishTask(ctx context.Context, t perdure.Task, row perdure.Call, v verdict) (ended perdure.Task, result perdure.ToolResult, err error) {
	ctx = e.cfg.Telemetry.InTask(ctx, t)
	stored, begins, together := t, logPage{}, e.ownFiles && !v.apart
	if !together || !v.silent { // else all that is to be read is read in the commit
		if stored, begins, err = e.ownedTask(ctx, t); err != nil {
			return ended, result, err
		}
	}
	u := v.update
	u.Attempt = t.Attempt
	var files []tool.FileWrite
	if !inRecord(t, v) {
		files = e.artifacts(ctx, stored, v, begins)
	}
	var paths artifactPaths
	if !together {
		missing := ""
		if paths, missing, err = e.publish(stored, files); err != nil {
			return ended, result, err
		}
		if missing != "" {
			u.Detail = "artifacts incomplete: " + missing
		}
	}
	state := perdure.CallSettled
	if v.unknown {
		state = perdure.CallUnknown
	}
	if u.State == perdure.TaskCanceled { // also on a full disk (R7)
		ctx = store.Urgent(ctx)
	}
	err = e.work.InTx(ctx, func(tx store.Tx) error {
		ended = perdure.Task{}
		if together {
			now, err := owned(tx, t)
			if err != nil || now.State.Terminal() { // it ended before
				return err
			}
			stored = now
			if paths, err = e.publishIn(tx, t, files); err != nil {
				return err
			}
		}
		u.ResultPath, u.LogPath = paths.result, paths.log
		u, came, err := e.foldRun(tx, t, u, v.body.text)
		if err != nil {
			return err
		}
		change, err := e.updateTask(tx, t, u, receiptFacts(stored, v.ended)...)
		switch {
		case err != nil:
			return err
		case change.Answer == perdure.UpdateLost:
			return fmt.Errorf("task %s, attempt %d: %w", t.ID, t.Attempt, perdure.Lost)
		case change.Answer == perdure.UpdateSettled || !change.Ended:
			return nil // it ended before: the first terminal writer won (TK3)
		}
		if err := e.voidApprovals(tx, t, "runtime", ""); err != nil { // nobody waits for them any more
			return err
		}
		if err := e.noteCame(tx, t, came); err != nil {
			return err
		}
		ended, result = change.Task, v.settles(t, paths)
		return tx.Settle(row.Key, row.Token, state, result)
	})
	return ended, result, err
}

// storedTask reads the task as it stands.
func (e *Effects) storedTask(ctx context.Context, t perdure.Task) (stored perdure.Task, err error) {
	err = e.cfg.Store.View(ctx, func(r store.Reader) error {
		stored, err = r.Task(t.Session, t.ID)
		return err
	})
	return stored, err
}

// ownedTask reads the task, and the beginning of its log if that can be read, and checks that the attempt still owns it.
func (e *Effects) ownedTask(ctx context.Context, t perdure.Task) (stored perdure.Task, begins logPage, err error) {
	err = e.cfg.Store.View(ctx, func(r store.Reader) error {
		if stored, err = owned(r, t); err == nil {
			begins.chunks, begins.end, begins.err = r.ReadLog(t.ID, 0, logPageBytes)
		}
		return err
	})
	if begins.err != nil { // which fails the whole view of a database
		err = e.cfg.Store.View(ctx, func(r store.Reader) error {
			stored, err = owned(r, t)
			return err
		})
	}
	return stored, begins, err
}

// owned is the task as it stands. Lost: another attempt has it.
func owned(r store.Reader, t perdure.Task) (perdure.Task, error) {
	stored, err := r.Task(t.Session, t.ID)
	if err == nil && stored.Attempt != t.Attempt {
		err = fmt.Errorf("task %s, attempt %d: %w", t.ID, t.Attempt, perdure.Lost)
	}
	return stored, err
}

// receiptFacts is the end of a cancel, when one was asked for (RC2).
func receiptFacts(t perdure.Task, end dispatch.End) []perdure.Fact {
	if !t.CancelRequested() || t.State.Terminal() { // the second: it was recorded, and only the answer was lost
		return nil
	}
	return []perdure.Fact{perdure.TaskCancelReceipt{Receipt: receipt(t, end)}}
}

func receipt(t perdure.Task, end dispatch.End) perdure.CancelReceipt {
	return perdure.CancelReceipt{
		RequestedAt: t.CancelRequestedAt, SignalledAt: end.SignalledAt.UTC().Truncate(time.Microsecond),
		DeadAt: end.ReturnedAt.UTC().Truncate(time.Microsecond), DidNotStop: end.DidNotStop,
	}
}
