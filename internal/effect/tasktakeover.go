package effect

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

// TakeOverTasks takes over the live tasks whose workers are dead, and returns how many it took
// over. It is part of every start, not only after a crash.
func (e *Effects) TakeOverTasks(ctx context.Context) (int, error) {
	var tasks []perdure.Task
	live := []perdure.TaskState{perdure.TaskRunning, perdure.TaskAwaitingInput}
	err := e.core.Store.View(ctx, func(r store.Reader) (err error) {
		tasks, err = r.Tasks().List(store.TaskFilter{States: live, ExceptWorker: e.core.Worker})
		alive := map[perdure.WorkerID]bool{} // each worker is looked up once, however many tasks it has
		tasks = slices.DeleteFunc(tasks, func(t perdure.Task) bool {
			if _, known := alive[t.Worker]; !known {
				alive[t.Worker] = e.core.OtherWorkerAlive(r, t.Worker)
			}
			return t.Kind == perdure.KindMonitor || alive[t.Worker] // a monitor has no work
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
		if e.core.Shared && taken >= TakeOverBatch {
			break // the next pass continues
		}
		err := e.takeOverTask(ctx, task)
		switch {
		case errors.Is(err, perdure.Lost): // another worker was faster
		case store.Broken(err) || ctx.Err() != nil && err != nil:
			return taken, fmt.Errorf("take over task %s: %w", task.ID, err)
		case err != nil: // the other tasks continue; the next pass tries this one again
			e.core.Log.Error("task not taken over", "task", task.ID, "error", tool.Chain(err))
		default:
			taken++
		}
	}
	return taken, nil
}

// takeOverTask judges what becomes of one task, and does it.
func (e *Effects) takeOverTask(ctx context.Context, task perdure.Task) error {
	if task.Links.ChildSession != "" {
		return e.adoptSubagentTask(ctx, task)
	}
	c, err := e.readLeftTask(ctx, task)
	if err != nil {
		return err
	}
	target, known := e.toolset.Find(task.Tool)
	found := perdure.OrphanedCall{
		StopRequested: task.CancelRequested(), Class: task.Class,
		Executions: task.Executions, MaxExecutions: e.core.MaxExecutions,
	}
	if known {
		found.Class = task.Class.Stricter(target.Spec().Class)
		_, found.Reattach = target.(tool.Reattacher)
		found = e.environment.Inspect(ctx, found, target, core.ToolCall(c.row, task.DeadlineAt))
	}
	how := found.TakeOver()
	e.core.Log.Info("task taken over", "task", task.ID, "tool", task.Tool, "class", task.Class,
		"attempt", task.Attempt+1, "how", how)
	return e.resumeTask(ctx, c, how)
}

// readLeftTask reads what the previous worker of a task left.
func (e *Effects) readLeftTask(ctx context.Context, task perdure.Task) (claimedTask, error) {
	c := claimedTask{task: task}
	err := e.core.Store.View(ctx, func(r store.Reader) (err error) {
		if c.row, err = r.Calls().Get(task.LedgerKey()); err != nil {
			return err
		}
		c.owner, err = core.ReadOwner(r, task.Session)
		if errors.Is(err, perdure.NotFound) || errors.Is(err, perdure.Invalid) {
			return nil // nothing can run the task; reattachRefusal reports why
		}
		if err != nil {
			return err
		}
		row, err := r.Sessions().Get(task.Session)
		c.owner.Of(row)
		return err
	})
	return c, err
}

// resumeTask makes this worker the owner, by a compare-and-set of the attempt, and continues as
// judged.
func (e *Effects) resumeTask(ctx context.Context, c claimedTask, how perdure.TakeOver) error {
	runs := how == perdure.TakeOverRunAgain || how == perdure.TakeOverFirstRun || how == perdure.TakeOverReattach || how == perdure.TakeOverReconcile
	refused := ""
	if runs {
		refused = e.reattachRefusal(c)
	}
	if refused == "" && how == perdure.TakeOverRunAgain && c.task.Kind == perdure.KindExternalAgent {
		refused = remoteUnknown
	}
	if runs && refused == "" && how != perdure.TakeOverAdopt && e.noFreeSlot(c.task) {
		return e.queueTask(ctx, c, how)
	}
	again := refused == "" && (how == perdure.TakeOverRunAgain || how == perdure.TakeOverFirstRun)
	if again {
		if err := e.prepareTask(ctx, c.task, c.task.Executions+1); err != nil {
			return err
		}
	}
	canceled := c.task.CancelRequested()
	c, err := e.acquireTask(ctx, c, how, again)
	if err != nil {
		return err
	}
	if c.task.CancelRequested() && !canceled {
		how = perdure.TakeOverStop // canceled between the look and the commit
	}
	if refused != "" {
		e.starting.drop(c.task.ID)
		e.core.Group.Go(func() {
			e.endTask(context.WithoutCancel(ctx), c.task, c.row,
				e.judgeTask(c.task, c.row, refusedTakeOver(c.task, refused), dispatch.End{}))
		})
	} else {
		e.continueTask(ctx, c, how)
	}
	e.core.Wake(c.task.Session)
	return nil
}

// acquireTask acquires the task and its ledger row in one commit, with the next attempt number and
// a fresh token. It also succeeds if the commit is stored and only its answer was lost.
func (e *Effects) acquireTask(ctx context.Context, left claimedTask, how perdure.TakeOver,
	again bool) (owned claimedTask, err error) {
	e.starting.add(left.task.ID)
	err = e.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) (err error) {
		owned, err = e.acquireTaskIn(tx, left, how, again)
		return err
	})
	if err != nil && e.ownsClaim(ctx, owned.row) {
		err = nil
	}
	if err != nil {
		e.starting.drop(left.task.ID)
	}
	return owned, err
}

// acquireTaskIn is the commit of acquireTask.
func (e *Effects) acquireTaskIn(tx store.Tx, left claimedTask, how perdure.TakeOver, again bool) (claimedTask, error) {
	u := perdure.TaskUpdate{
		Attempt: left.task.Attempt, IncrementAttempt: true, Worker: e.core.Worker, StartsExecution: again,
		Detail: fmt.Sprintf("re-attached (attempt %d)", left.task.Attempt+1),
	}
	if left.task.State == perdure.TaskQueued { // so that no other worker starts it from the queue
		u.State = perdure.TaskRunning
	}
	// The deadline is that of the attempt: time in which nothing ran does not count.
	if _, runs := startOf(how); runs && how != perdure.TakeOverAdopt {
		u.DeadlineAt = tx.Now().Add(e.toolset.DeadlineOf(left.task))
	}
	change, err := e.records.Update(tx, left.task, u, perdure.TaskReattached{Attempt: left.task.Attempt + 1, How: how})
	if err == nil && change.Answer != perdure.Updated {
		err = perdure.Lost
	}
	if err != nil {
		return claimedTask{}, err
	}
	left.task = change.Task
	return takeOverRow(tx, left, how)
}

// takeOverRow completes the take-over: a mark in the log, and the ledger row under a fresh token.
func takeOverRow(tx store.Tx, c claimedTask, how perdure.TakeOver) (claimedTask, error) {
	old := c.row
	c.row.Token, c.row.Worker = core.NewToken(), ownerAfter(how, old.Worker, c.task.Worker)
	c.row.Attempt, c.row.Executions = c.task.Attempt, c.task.Executions
	var note []byte
	if how == perdure.TakeOverRunAgain { // the log may hold output of an earlier attempt
		note = fmt.Appendf(nil, "attempt %d\n", c.task.Attempt)
	}
	offset, err := tx.Tasks().AppendLog(c.task.ID, c.task.Attempt, "system", note)
	if err != nil {
		return claimedTask{}, err
	}
	c.logBytes = offset + int64(len(note))
	return c, tx.Calls().TakeOver(old, c.row)
}

// ownerAfter returns the worker that the ledger row of a call names after its take-over.
//
// A call whose execution continues or starts gets the new owner. While it is still open what became
// of the call, the row keeps the dead owner: the token already fences every write of that owner,
// and the same call is not made a second time before the outcome is recorded (see
// perdure.Call.Withholds).
func ownerAfter(how perdure.TakeOver, dead, next perdure.WorkerID) perdure.WorkerID {
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
func (e *Effects) queueTask(ctx context.Context, left claimedTask, how perdure.TakeOver) error {
	if left.task.State == perdure.TaskQueued {
		return nil // it is queued already
	}
	u := perdure.TaskUpdate{
		Attempt: left.task.Attempt, IncrementAttempt: true, State: perdure.TaskQueued, Worker: left.task.Worker,
		Detail: fmt.Sprintf("re-attached (attempt %d)", left.task.Attempt+1),
	}
	if how == perdure.TakeOverRunAgain || how == perdure.TakeOverFirstRun {
		u.Worker = ""
	}
	err := e.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		now, err := taskrecord.Owned(tx.Reader(), left.task)
		if err == nil && now.CancelRequested() {
			err = fmt.Errorf("%w: a cancel was requested", perdure.Lost) // the next pass sees the cancel
		}
		if err != nil {
			return err
		}
		change, err := e.records.Update(tx, left.task, u, perdure.TaskReattached{Attempt: left.task.Attempt + 1, How: how})
		if err == nil && change.Answer != perdure.Updated {
			err = perdure.Lost
		}
		if err != nil {
			return err
		}
		c := left
		c.task = change.Task
		_, err = takeOverRow(tx, c, how)
		return err
	})
	e.core.Wake(left.task.Session)
	return err
}

// continueTask continues a task that this worker owns now.
func (e *Effects) continueTask(ctx context.Context, c claimedTask, how perdure.TakeOver) {
	start, runs := startOf(how)
	if runs {
		e.runTask(c, start)
		return
	}
	task, row := c.task, c.row
	e.starting.drop(task.ID)
	switch how {
	case perdure.TakeOverStop, perdure.TakeOverTimeout:
		e.core.Group.Go(func() { e.stopTask(context.WithoutCancel(ctx), task, row, how) })
	case perdure.TakeOverGiveUp:
		gone := tool.Error("worker heartbeat stopped")
		gone.ErrorKind = perdure.ErrorOrphaned
		v := e.judgeTask(task, row, gone, dispatch.End{})
		v.update.Detail = fmt.Sprintf("gave up after %d executions", row.Executions)
		e.core.Group.Go(func() { e.endTask(context.WithoutCancel(ctx), task, row, v) })
	default:
		e.core.Group.Go(func() {
			e.endTask(context.WithoutCancel(ctx), task, row, e.judgeTask(task, row, core.UnknownResult(), dispatch.End{}))
		})
	}
}

// startOf returns how a run starts for a judgement. Not runs: there is nothing to run.
func startOf(how perdure.TakeOver) (start taskStart, runs bool) {
	switch how {
	case perdure.TakeOverAdopt:
		return adoptedTask, true
	case perdure.TakeOverRunAgain, perdure.TakeOverFirstRun:
		return freshTask, true
	case perdure.TakeOverReattach:
		return reattachedTask, true
	case perdure.TakeOverReconcile:
		return reconciledTask, true
	}
	return freshTask, false
}

// stopTask stops what a dead attempt left running, and ends the task.
func (e *Effects) stopTask(ctx context.Context, task perdure.Task, row perdure.Call, how perdure.TakeOver) {
	end := dispatch.End{Cause: perdure.CauseCanceled, SignalledAt: time.Now()}
	if how == perdure.TakeOverTimeout {
		end.Cause = perdure.CauseDeadline
	}
	target, _ := e.toolset.Find(task.Tool)
	if survivor, ok := target.(tool.Adoptable); ok {
		if err := e.core.Guarded("stop", func() error {
			return survivor.Stop(ctx, core.ToolCall(row, time.Time{}))
		}); err != nil {
			e.core.Log.Error("process of a dead attempt not stopped", "task", task.ID, "error", tool.Chain(err))
			end.DidNotStop = true
		}
	}
	end.ReturnedAt = time.Now()
	v := e.judgeTask(task, row, core.CauseResult(end.Cause, row), end)
	if how == perdure.TakeOverStop && !end.DidNotStop && !task.Class.Repeatable() {
		v.update.Detail = "effects before the cancel are unknown"
	}
	e.endTask(ctx, task, row, v)
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
func (e *Effects) reattachRefusal(c claimedTask) string {
	task := c.task
	if files, _ := e.core.Files(task.Session); files == nil {
		return "file store not available; cannot re-attach background run"
	}
	if c.owner == nil {
		return "task registry not available; cannot re-attach background run"
	}
	if task.Spec.Tool == "" {
		return "background_tool spec missing 'tool' field; cannot re-attach"
	}
	target, ok := e.toolset.Find(task.Spec.Tool) // even if the agent may no longer see the tool: it could when the task started
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

// prepareTask makes the start ticket of a supervised run, before its claim.
func (e *Effects) prepareTask(ctx context.Context, task perdure.Task, execution int) error {
	target, _ := e.toolset.Find(task.Tool)
	survivor, ok := target.(tool.Adoptable)
	if !ok {
		return nil
	}
	key := task.LedgerKey()
	call := tool.Call{Session: task.Session, ID: key.Call, Task: task.ID, Execution: execution, Tool: task.Tool,
		Key: key.IdempotencyKey()}
	if err := e.core.Guarded("prepare", func() error { return survivor.Prepare(ctx, call) }); err != nil {
		return fmt.Errorf("prepare %s: %w", task.Tool, err)
	}
	return nil
}
