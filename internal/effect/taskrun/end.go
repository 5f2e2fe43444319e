package taskrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// End ends an attempt. It writes the artifacts, and then the terminal state, result, ledger
// row, event and outbox row in one commit, fenced by the attempt. If the store cannot be reached,
// it retries while this process runs; after that crash recovery decides.
func (ts *Tasks) End(ctx context.Context, t perdure.Task, row perdure.Call, v Verdict) {
	for attempt := 1; ; attempt++ {
		ended, result, err := ts.finishTask(ctx, t, row, v)
		if err == nil {
			if ended.State.Terminal() {
				ts.endWaiters.notify(TaskEnd{Task: ended, Result: readBackResult(ended, v.unknown, result)})
			}
			break
		}
		if errors.Is(err, perdure.Lost) || store.Broken(err) || errors.Is(err, perdure.NotFound) {
			ts.core.Log.Warn("task end not recorded: another owner", "task", t.ID, "attempt", t.Attempt, "error", err)
			return
		}
		if !v.separateArtifacts && ts.core.OwnFiles { // an artifact that cannot be written must not prevent the end
			v.separateArtifacts = true
			continue
		}
		if errors.Is(err, perdure.Invalid) || errors.Is(err, perdure.Conflict) {
			if v.replacement {
				ts.core.Log.Error("task end not recorded", "task", t.ID, "error", err)
				return
			}
			ts.core.Log.Error("task result refused by the store", "task", t.ID, "error", err)
			v = ts.Judge(Claimed{Task: t, Row: row}, tool.Internal(err), v.ended)
			v.replacement, v.separateArtifacts = true, true
		}
		ts.core.Log.Warn("task end retried", "task", t.ID, "error", err)
		select {
		case <-time.After(perdure.RetryDelay(attempt, 0, string(t.ID)) / 10):
		case <-ts.core.Runner.Done():
			return
		}
	}
	if !t.ReadByCaller() { // its session has nothing to do
		ts.core.Wake(t.Session)
	}
	ts.core.StartQueued()
}

// Verdict is how an attempt ended, for the task's record and its artifacts.
type Verdict struct {
	Update perdure.TaskUpdate
	// the full result; the ledger's is cut once it is known where the full one is stored
	result            perdure.ToolResult
	limit             int     // bytes of a result that a model reads
	body              Content // content of result.json
	tail              string  // last lines of output.log
	raw               *string // replaces the log; nil: the log is used
	code              *int    // exit code
	ended             dispatch.End
	unknown           bool
	noOutput          bool // the log is empty
	replacement       bool // replaces a result that the store refused
	separateArtifacts bool // artifacts are written before the end, each separately: not all of them can be written
}

// ledgerResult returns the result for the ledger. A host that reads it by its handle gets the full
// result; for a model it is cut, with the path of the full one.
func (v Verdict) ledgerResult(t perdure.Task, paths artifactPaths) perdure.ToolResult {
	if t.ReadByCaller() && len(v.result.Result) <= resultLimitBytes {
		return v.result
	}
	stored := tool.StoredOutput{Path: paths.result}
	if v.raw != nil {
		stored.RawPath = cmp.Or(paths.raw, paths.log)
	}
	return stored.Cut(v.result, v.limit)
}

// fail makes the record of a failure. The text in the task's row is cut, because the row is read
// often; result.json has the full text.
func (v *Verdict) fail(kind perdure.ErrorKind, full string) {
	text := tool.Cut(perdure.Failed("", kind, full), v.limit, "").Error
	v.Update.State, v.Update.Summary, v.Update.Detail = perdure.TaskFailed, text, "failed"
	v.Update.Error = &perdure.TaskError{Kind: kind, Message: text}
	v.body = ResultContent(prettyJSON(map[string]string{"status": "failed", "error": full}))
}

// Judge derives the record of an attempt from how it ended. Without an owner, hooks do not learn
// for whom the task ran.
func (ts *Tasks) Judge(c Claimed, r tool.Result, end dispatch.End) Verdict {
	t, row := c.Task, c.Row
	stopped := end.DidNotStop || end.Cause != "" && !r.IsSuccess() && dispatch.OnlyReportsCause(r)
	if stopped {
		r = core.CauseResult(end.Cause, row)
	}
	call := core.ToolCall(row, t.DeadlineAt)
	if c.Owner != nil {
		call = c.Owner.Calls(call)
	}
	r, withheld := ts.core.Gate().After(context.Background(), call, r)
	record := ts.environment.FullRecord(row, r)
	v := Verdict{result: record, limit: ts.core.Limits.ResultBytes, raw: r.Raw, code: r.ExitCode, ended: end}
	v.Update.Narration = ts.environment.Narration(call, record, r.RevealsSecret)
	if withheld {
		text := "[output withheld by tool policy]"
		v.raw = &text
	}
	if t.FromCall() {
		v.Update.Result = perdure.ShortResult(record.Result, t.ArtifactDir()+"/result.json")
	}
	switch {
	case stopped && end.Cause == perdure.CauseCanceled || r.ErrorKind == perdure.ErrorCanceled:
		v.Update.State, v.Update.Summary, v.Update.Detail = perdure.TaskCanceled, "Canceled by request.", "canceled"
		v.tail, v.body = "\nCanceled by request.\n", shortContent(prettyJSON(map[string]string{"status": "canceled"}))
		if end.DidNotStop { // whatever the work does from now on is refused
			v.Update.Detail, v.Update.IncrementAttempt, v.Update.Worker = "did not stop", true, ts.core.Worker
		}
	case record.ErrorKind == perdure.ErrorUnknown:
		v.unknown = true
		v.Update.State, v.Update.Summary, v.Update.Detail = perdure.TaskUnknown, "Outcome unknown.", "outcome unknown"
		v.body = shortContent(prettyJSON(map[string]string{"status": "unknown"}))
	case record.ConnectionRequired != "":
		v.fail(perdure.ErrorTool, "Background tool requires connection setup: "+record.ConnectionRequired)
	case record.IsError():
		v.fail(record.ErrorKind, record.Error)
	default:
		v.Update.State, v.Update.Summary, v.Update.Detail = perdure.TaskSucceeded, record.Brief(), "completed"
		v.body = ResultContent(record.Result)
	}
	return v
}

// finishTask writes the artifacts and settles the task, both fenced by the attempt; in one commit
// if files are stored in the store. It returns the task and its result as stored, or the zero task
// if the task had ended before. Lost: another attempt owns the task.
func (ts *Tasks) finishTask(ctx context.Context, t perdure.Task, row perdure.Call,
	v Verdict) (ended perdure.Task, result perdure.ToolResult, err error) {
	ctx = ts.core.Telemetry.InTask(ctx, t)
	stored, begins, together := t, logPage{}, ts.core.OwnFiles && !v.separateArtifacts
	if !together || !v.noOutput { // otherwise everything is read in the commit
		if stored, begins, err = ts.ownedTask(ctx, t); err != nil {
			return ended, result, err
		}
	}
	u := v.Update
	u.Attempt = t.Attempt
	var files []tool.FileWrite
	if !fitsRecord(t, v) {
		files = ts.artifacts(ctx, stored, v, begins)
	}
	var paths artifactPaths
	if !together {
		missing := ""
		if paths, missing, err = ts.publish(stored, files); err != nil {
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
	if u.State == perdure.TaskCanceled { // a cancel must work even on a full disk
		ctx = store.Urgent(ctx)
	}
	err = ts.core.Work.InTx(ctx, func(tx store.Tx) error {
		ended = perdure.Task{}
		if together {
			now, err := taskrecord.Owned(tx.Reader(), t)
			if err != nil || now.State.Terminal() { // it ended before
				return err
			}
			stored = now
			if paths, err = ts.publishInTx(tx, t, files); err != nil {
				return err
			}
		}
		u.ResultPath, u.LogPath = paths.result, paths.log
		u, came, err := ts.records.SuppressUnchanged(tx.Reader(), t, u, v.body.Text)
		if err != nil {
			return err
		}
		change, err := ts.records.Update(tx, t, u, receiptFacts(stored, v.ended)...)
		switch {
		case err != nil:
			return err
		case change.Answer == perdure.UpdateLost:
			return fmt.Errorf("task %s, attempt %d: %w", t.ID, t.Attempt, perdure.Lost)
		case change.Answer == perdure.UpdateSettled || !change.Ended:
			return nil // it ended before: the first terminal write wins
		}
		if err := ts.records.VoidApprovals(tx, t, "runtime", ""); err != nil { // nothing waits for them any more
			return err
		}
		if err := ts.records.RecordRunDigest(tx, t, came); err != nil {
			return err
		}
		ended, result = change.Task, v.ledgerResult(t, paths)
		return tx.Calls().Settle(row.Key, row.Token, state, result)
	})
	return ended, result, err
}

// ownedTask reads the task, and the first page of its log if it can be read, and checks that the
// attempt still owns it.
func (ts *Tasks) ownedTask(ctx context.Context, t perdure.Task) (stored perdure.Task, begins logPage, err error) {
	err = ts.core.Store.View(ctx, func(r store.Reader) error {
		if stored, err = taskrecord.Owned(r, t); err == nil {
			begins.chunks, begins.end, begins.err = r.Tasks().ReadLog(t.ID, 0, logPageBytes)
		}
		return err
	})
	if begins.err != nil { // this failed the view, so the task is read again without the log
		err = ts.core.Store.View(ctx, func(r store.Reader) error {
			stored, err = taskrecord.Owned(r, t)
			return err
		})
	}
	return stored, begins, err
}

// receiptFacts returns the receipt of a cancel, if one was requested.
func receiptFacts(t perdure.Task, end dispatch.End) []perdure.Fact {
	if !t.CancelRequested() || t.State.Terminal() {
		// terminal: the end was recorded before, and only the answer was lost
		return nil
	}
	return []perdure.Fact{perdure.TaskCancelReceipt{Receipt: receipt(t, end)}}
}

func receipt(t perdure.Task, end dispatch.End) perdure.CancelReceipt {
	r := perdure.CancelReceipt{
		RequestedAt: t.CancelRequestedAt, SignalledAt: end.SignalledAt.UTC().Truncate(time.Microsecond),
		DidNotStop: end.DidNotStop,
	}
	if !end.DidNotStop { // otherwise nobody knows that it is dead
		r.DeadAt = end.ReturnedAt.UTC().Truncate(time.Microsecond)
	}
	return r
}
