package taskrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// TakeOverBatch is the largest number of tasks that one pass takes over if the store is shared.
// After a full batch there may be more.
const TakeOverBatch = 50

// TakeOver takes over the live tasks whose workers are dead, and returns how many it took
// over. It is part of every start, not only after a crash.
//
// of restricts it to tasks whose remains are at one home; empty: all. A task that waits for another
// home is left alone, and does not count.
func (ts *Tasks) TakeOver(ctx context.Context, of perdure.HomeID) (int, error) {
	var tasks []perdure.Task
	live := []perdure.TaskState{perdure.TaskRunning, perdure.TaskAwaitingInput}
	err := ts.core.Store.View(ctx, func(r store.Reader) (err error) {
		tasks, err = r.Tasks().List(store.TaskFilter{States: live, ExceptWorker: ts.core.Worker, Home: of})
		alive := map[perdure.WorkerID]bool{} // each worker is looked up once, however many tasks it has
		tasks = slices.DeleteFunc(tasks, func(t perdure.Task) bool {
			if _, known := alive[t.Worker]; !known {
				alive[t.Worker] = ts.core.OtherWorkerAlive(r, t.Worker)
			}
			return t.Kind == perdure.KindMonitor || alive[t.Worker] || // a monitor has no work
				t.WaitsForHome != "" && ts.core.RemainsAt(r, t.Home) == perdure.RemainsElsewhere
		})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("take over tasks: %w", err)
	}
	taken := 0
	for _, task := range tasks {
		waits := task.State == perdure.TaskAwaitingInput && !task.CancelRequested() && task.Links.ChildSession == ""
		if waits { // it resumes when it is answered
			continue
		}
		if ts.core.Shared && taken >= TakeOverBatch {
			break // the next pass continues
		}
		err := ts.takeOverTask(ctx, task, core.Grant{})
		switch {
		case errors.Is(err, perdure.Lost): // another worker was faster
		case store.Broken(err) || ctx.Err() != nil && err != nil:
			return taken, fmt.Errorf("take over task %s: %w", task.ID, err)
		case err != nil: // the other tasks continue; the next pass tries this one again
			ts.core.Log.Error("task not taken over", "task", task.ID, "error", tool.Chain(err))
		default:
			taken++
		}
	}
	return taken, nil
}

// takeOverTask judges what becomes of one task, and does it.
func (ts *Tasks) takeOverTask(ctx context.Context, task perdure.Task, g core.Grant) error {
	if task.Links.ChildSession != "" {
		err := ts.subagents.Adopt(ctx, task)
		if err == nil {
			ts.reportTakeOver(task, perdure.TakeOverReattach)
		}
		return err
	}
	c, err := ts.readLeftTask(ctx, task)
	if err != nil {
		return err
	}
	c.grant = g
	target, known := ts.toolset.Find(task.Tool)
	found := perdure.OrphanedCall{
		StopRequested: task.CancelRequested(), Class: task.Class, Remains: c.remains,
		Executions: task.Executions, MaxExecutions: ts.core.Limits.MaxExecutions,
	}
	if known {
		found.Class = task.Class.Stricter(target.Spec().Class)
		_, found.Reattach = target.(tool.Reattacher)
		found = ts.environment.Inspect(ctx, found, target, core.ToolCall(c.Row, task.DeadlineAt))
	}
	how := found.TakeOver()
	if how == perdure.TakeOverWait {
		return ts.waitForHome(ctx, task, task.Home)
	}
	if c.filesAt != "" && continues(how) {
		return ts.waitForHome(ctx, task, c.filesAt)
	}
	ts.core.Log.Info("task taken over", "task", task.ID, "tool", task.Tool, "class", task.Class,
		"attempt", task.Attempt+1, "how", how)
	return ts.resumeTask(ctx, c, how)
}

// waitForHome leaves a task to a home, and records that for those who look at the task.
// AtAnotherHome: that is recorded already.
func (ts *Tasks) waitForHome(ctx context.Context, task perdure.Task, home perdure.HomeID) error {
	if task.WaitsForHome == home {
		return core.AtAnotherHome
	}
	return ts.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		_, err := ts.records.Update(tx, task, perdure.TaskUpdate{Attempt: task.Attempt, WaitsForHome: home,
			Detail: "waits for " + core.HomeName(tx.Reader(), home)})
		return err
	})
}

// readLeftTask reads what the previous worker of a task left.
func (ts *Tasks) readLeftTask(ctx context.Context, task perdure.Task) (Claimed, error) {
	c := Claimed{Task: task}
	err := ts.core.Store.View(ctx, func(r store.Reader) (err error) {
		c.remains = ts.core.RemainsAt(r, task.Home)
		if c.Row, err = r.Calls().Get(task.LedgerKey()); err != nil {
			return err
		}
		c.Owner, err = core.ReadOwner(r, task.Session)
		if errors.Is(err, perdure.NotFound) || errors.Is(err, perdure.Invalid) {
			return nil // nothing can run the task; reattachRefusal reports why
		}
		if err != nil {
			return err
		}
		row, err := r.Sessions().Get(task.Session)
		c.Owner.Of(row)
		if err == nil && ts.core.FilesElsewhere(row) {
			c.filesAt = row.Home
		}
		return err
	})
	return c, err
}

// continues reports whether a take-over continues or repeats the work of a task. If not, it only
// ends the task.
func continues(how perdure.TakeOver) bool {
	return how == perdure.TakeOverRunAgain || how == perdure.TakeOverFirstRun || how == perdure.TakeOverReattach || how == perdure.TakeOverReconcile
}

// resumeTask makes this worker the owner, by a compare-and-set of the attempt, and continues as
// judged.
func (ts *Tasks) resumeTask(ctx context.Context, c Claimed, how perdure.TakeOver) error {
	runs := continues(how)
	refused := ""
	if runs {
		refused = ts.reattachRefusal(c)
	}
	if refused == "" && how == perdure.TakeOverRunAgain && c.Task.Kind == perdure.KindExternalAgent {
		refused = remoteUnknown
	}
	left := c.Task
	if runs && refused == "" && how != perdure.TakeOverAdopt && ts.noFreeSlot(c.Task, c.Owner.Agent) {
		err := ts.queueTask(ctx, c, how)
		if err == nil {
			ts.reportTakeOver(left, how)
		}
		return err
	}
	again := refused == "" && (how == perdure.TakeOverRunAgain || how == perdure.TakeOverFirstRun)
	if again {
		if err := ts.Prepare(ctx, c.Task, c.Task.Executions+1); err != nil {
			return err
		}
	}
	canceled := c.Task.CancelRequested()
	c, err := ts.acquireTask(ctx, c, how, again)
	if err != nil {
		return err
	}
	if c.Task.CancelRequested() && !canceled {
		how = perdure.TakeOverStop // canceled between the look and the commit
	}
	if refused != "" {
		ts.reportTakeOver(left, howRefused(left))
		ts.Starting.Drop(c.Task.ID)
		ts.Grants().endLeft(c.Task.ID, func() {
			ts.End(context.WithoutCancel(ctx), c.Task, c.Row,
				ts.Judge(c, refusedTakeOver(c.Task, refused), dispatch.End{}))
		})
	} else {
		ts.reportTakeOver(left, how)
		ts.continueTask(ctx, c, how)
	}
	ts.core.Wake(c.Task.Session)
	return nil
}

// reportTakeOver reports that this worker owns a task now. left is its record from before.
func (ts *Tasks) reportTakeOver(left perdure.Task, how perdure.TakeOver) {
	last := left.HeartbeatAt
	if left.UpdatedAt.After(last) && left.WaitsForHome == "" { // then another worker updated it last
		last = left.UpdatedAt
	}
	ts.core.ReportTakeOver(core.TakenOver{Session: left.Session, Task: left.ID, Dead: left.Worker,
		Class: left.Class, How: how, LastSign: last})
}

// howRefused returns how a task is taken over that cannot be resumed.
func howRefused(left perdure.Task) perdure.TakeOver {
	if !left.Class.Repeatable() {
		return perdure.TakeOverUnknown
	}
	return perdure.TakeOverGiveUp
}

// acquireTask acquires the task and its ledger row in one commit, with the next attempt number and
// a fresh token. It also succeeds if the commit is stored and only its answer was lost.
func (ts *Tasks) acquireTask(ctx context.Context, left Claimed, how perdure.TakeOver,
	again bool) (owned Claimed, err error) {
	ts.Starting.Add(left.Task.ID)
	err = ts.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) (err error) {
		owned, err = ts.acquireTaskIn(tx, left, how, again)
		return err
	})
	if err != nil && ts.OwnsClaim(ctx, owned.Row) {
		err = nil
	}
	if err != nil {
		ts.Starting.Drop(left.Task.ID)
	}
	return owned, err
}

// acquireTaskIn is the commit of acquireTask.
func (ts *Tasks) acquireTaskIn(tx store.Tx, left Claimed, how perdure.TakeOver, again bool) (Claimed, error) {
	if err := ts.core.Use(tx, left.grant, WorkOf(left.Task)); err != nil {
		return Claimed{}, err
	}
	u := perdure.TaskUpdate{
		Attempt: left.Task.Attempt, IncrementAttempt: true, Worker: ts.core.Worker, StartsExecution: again,
		Home:   ts.records.HomeOf(left.Task),
		Detail: fmt.Sprintf("re-attached (attempt %d)", left.Task.Attempt+1),
	}
	if left.Task.State == perdure.TaskQueued { // so that no other worker starts it from the queue
		u.State = perdure.TaskRunning
	}
	// The deadline is that of the attempt: time in which nothing ran does not count.
	if _, runs := startOf(how); runs && how != perdure.TakeOverAdopt {
		u.DeadlineAt = tx.Now().Add(ts.toolset.DeadlineOf(left.Task))
	}
	change, err := ts.records.Update(tx, left.Task, u, perdure.TaskReattached{Attempt: left.Task.Attempt + 1, How: how})
	if err == nil && change.Answer != perdure.Updated {
		err = perdure.Lost
	}
	if err != nil {
		return Claimed{}, err
	}
	left.Task = change.Task
	return takeOverRow(tx, left, how)
}

// takeOverRow completes the take-over: a mark in the log, and the ledger row under a fresh token.
func takeOverRow(tx store.Tx, c Claimed, how perdure.TakeOver) (Claimed, error) {
	old := c.Row
	c.Row.Token, c.Row.Worker = core.NewToken(), OwnerAfter(how, old.Worker, c.Task.Worker)
	c.Row.Attempt, c.Row.Executions, c.Row.Home = c.Task.Attempt, c.Task.Executions, c.Task.Home
	var note []byte
	if how == perdure.TakeOverRunAgain { // the log may hold output of an earlier attempt
		note = fmt.Appendf(nil, "attempt %d\n", c.Task.Attempt)
	}
	offset, err := tx.Tasks().AppendLog(c.Task.ID, c.Task.Attempt, "system", note)
	if err != nil {
		return Claimed{}, err
	}
	c.logBytes = offset + int64(len(note))
	return c, tx.Calls().TakeOver(old, c.Row)
}

// OwnerAfter returns the worker that the ledger row of a call names after its take-over.
//
// A call whose execution continues or starts gets the new owner. While it is still open what became
// of the call, the row keeps the dead owner: the token already fences every write of that owner,
// and the same call is not made a second time before the outcome is recorded (see
// perdure.Call.Withholds).
func OwnerAfter(how perdure.TakeOver, dead, next perdure.WorkerID) perdure.WorkerID {
	switch how {
	case perdure.TakeOverAdopt, perdure.TakeOverReattach, perdure.TakeOverRunAgain, perdure.TakeOverFirstRun:
		return next
	}
	return dead
}

// queueTask queues a task that should run but has no slot, under a new attempt. A task that was
// judged to run again loses its worker, and starts from the queue like any other. A task whose tool
// must be asked first keeps its dead worker, and is judged again when it has a slot. A cancel in
// the meantime ends it in the queue.
func (ts *Tasks) queueTask(ctx context.Context, left Claimed, how perdure.TakeOver) error {
	if left.Task.State == perdure.TaskQueued {
		return nil // it is queued already
	}
	u := perdure.TaskUpdate{
		Attempt: left.Task.Attempt, IncrementAttempt: true, State: perdure.TaskQueued, Worker: left.Task.Worker,
		Detail: fmt.Sprintf("re-attached (attempt %d)", left.Task.Attempt+1),
	}
	if how == perdure.TakeOverRunAgain || how == perdure.TakeOverFirstRun {
		u.Worker = ""
	}
	err := ts.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		now, err := taskrecord.Owned(tx.Reader(), left.Task)
		if err == nil {
			err = ts.core.Use(tx, left.grant, WorkOf(left.Task))
		}
		if err == nil && now.CancelRequested() {
			err = fmt.Errorf("%w: a cancel was requested", perdure.Lost) // the next pass sees the cancel
		}
		if err != nil {
			return err
		}
		change, err := ts.records.Update(tx, left.Task, u, perdure.TaskReattached{Attempt: left.Task.Attempt + 1, How: how})
		if err == nil && change.Answer != perdure.Updated {
			err = perdure.Lost
		}
		if err != nil {
			return err
		}
		c := left
		c.Task = change.Task
		_, err = takeOverRow(tx, c, how)
		return err
	})
	ts.core.Wake(left.Task.Session)
	return err
}

// continueTask continues a task that this worker owns now.
func (ts *Tasks) continueTask(ctx context.Context, c Claimed, how perdure.TakeOver) {
	start, runs := startOf(how)
	if runs {
		ts.Run(c, start)
		return
	}
	task, row := c.Task, c.Row
	ts.Starting.Drop(task.ID)
	switch how {
	case perdure.TakeOverStop, perdure.TakeOverTimeout:
		ts.Grants().endLeft(task.ID, func() { ts.stopTask(context.WithoutCancel(ctx), c, how) })
	case perdure.TakeOverGiveUp:
		gone := tool.Error("worker heartbeat stopped")
		gone.ErrorKind = perdure.ErrorOrphaned
		v := ts.Judge(c, gone, dispatch.End{})
		v.Update.Detail = fmt.Sprintf("gave up after %d executions", row.Executions)
		ts.Grants().endLeft(task.ID, func() { ts.End(context.WithoutCancel(ctx), task, row, v) })
	default:
		ts.Grants().endLeft(task.ID, func() {
			ts.End(context.WithoutCancel(ctx), task, row, ts.Judge(c, core.UnknownResult(), dispatch.End{}))
		})
	}
}

// startOf returns how a run starts for a judgement. Not runs: there is nothing to run.
func startOf(how perdure.TakeOver) (start Start, runs bool) {
	switch how {
	case perdure.TakeOverAdopt:
		return adoptedTask, true
	case perdure.TakeOverRunAgain, perdure.TakeOverFirstRun:
		return FreshTask, true
	case perdure.TakeOverReattach:
		return reattachedTask, true
	case perdure.TakeOverReconcile:
		return reconciledTask, true
	}
	return FreshTask, false
}

// stopTask stops what a dead attempt left running, and ends the task.
func (ts *Tasks) stopTask(ctx context.Context, c Claimed, how perdure.TakeOver) {
	task, row := c.Task, c.Row
	end := dispatch.End{Cause: perdure.CauseCanceled, SignalledAt: time.Now()}
	if how == perdure.TakeOverTimeout {
		end.Cause = perdure.CauseDeadline
	}
	target, _ := ts.toolset.Find(task.Tool)
	if c.remains == perdure.RemainsUnseen { // nothing here could stop them, or see that they are dead
		end.DidNotStop = true
	} else if err := ts.environment.StopRemains(ctx, target, core.ToolCall(row, time.Time{}), task.ForceRequested()); err != nil {
		ts.core.Log.Error("process of a dead attempt not stopped", "task", task.ID, "error", tool.Chain(err))
		end.DidNotStop = true
	}
	end.ReturnedAt = time.Now()
	v := ts.Judge(c, core.CauseResult(end.Cause, row), end)
	if how == perdure.TakeOverStop && !end.DidNotStop && !task.Class.Repeatable() {
		v.Update.Detail = "effects before the cancel are unknown"
	}
	ts.End(ctx, task, row, v)
}

// refusedTakeOver is the end of a task that cannot be resumed; an at_most_once task is unknown.
func refusedTakeOver(task perdure.Task, text string) tool.Result {
	if !task.Class.Repeatable() {
		return core.UnknownResult()
	}
	r := tool.Error(text)
	r.ErrorKind = perdure.ErrorOrphaned
	return r
}

// reattachRefusal returns why a task cannot be resumed; empty: it can. Texts and order are those of
// the specification (RC15).
func (ts *Tasks) reattachRefusal(c Claimed) string {
	task := c.Task
	if files, _ := ts.core.Ports.Files(task.Session); files == nil {
		return "file store not available; cannot re-attach background run"
	}
	if c.Owner == nil {
		return "task registry not available; cannot re-attach background run"
	}
	if task.Spec.Tool == "" {
		return "background_tool spec missing 'tool' field; cannot re-attach"
	}
	target, ok := ts.toolset.Find(task.Spec.Tool) // even if the agent may no longer see the tool: it could when the task started
	if !ok {
		return fmt.Sprintf("tool '%s' not found in built-in registry; cannot re-attach", task.Spec.Tool)
	}
	if _, ok := target.(tool.Background); !ok && !task.FromCall() {
		return fmt.Sprintf("tool '%s' does not support background execution; cannot re-attach", task.Spec.Tool)
	}
	_, reconciles := target.(tool.Reconciler)
	_, reattaches := target.(tool.Reattacher)
	_, survives := target.(tool.Adoptable)
	if !target.Spec().Class.Repeatable() && !reconciles && !reattaches && !survives {
		return fmt.Sprintf("tool '%s' is not idempotent or readonly; re-attach declined", task.Spec.Tool)
	}
	return ""
}

// remoteUnknown is why the task of an external agent is not resumed: its remote task is not known,
// so it may still be running somewhere.
const remoteUnknown = "remote task id not known; cannot re-attach external agent"

// EndsWithChild reports whether a task is that of a subagent whose session exists. Then the
// subagent's journal decides how the task ends.
func (ts *Tasks) EndsWithChild(task perdure.Task) bool {
	if task.Kind != perdure.KindSubagent {
		return false
	}
	var stored perdure.Task
	err := ts.core.ReadBack(context.Background(), func(r store.Reader) (err error) {
		stored, err = r.Tasks().Get(task.Session, task.ID)
		return err
	})
	return err != nil || stored.Links.ChildSession != ""
}

// CallEnded reports whether the call that waited for a subagent has its result.
func (ts *Tasks) CallEnded(ctx context.Context, task perdure.Task) bool {
	var row perdure.Call
	err := ts.core.Store.View(ctx, func(r store.Reader) (err error) {
		row, err = r.Calls().Get(perdure.CallKey{Session: task.Session, Call: task.Call})
		return err
	})
	return err == nil && row.State != perdure.CallRunning
}
