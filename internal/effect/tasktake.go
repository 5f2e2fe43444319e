package effect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// TakeOverBatch is how many tasks one pass takes over where there are other workers (RC12). After one that took so many there
// may be more.
const TakeOverBatch = 50

// TakeOverTasks takes up every live task whose worker is dead, in the order of RC13, and says how many it
// took. It is the ordinary start: nothing of it is special to a crash.
func (e *Effects) TakeOverTasks(ctx context.Context) (int, error) {
	var tasks []perdure.Task
	live := []perdure.TaskState{perdure.TaskRunning, perdure.TaskAwaitingInput}
	err := e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		tasks, err = r.Tasks(store.TaskFilter{States: live, Except: e.cfg.Worker})
		lives := map[perdure.WorkerID]bool{} // by one question each, however many tasks they have
		tasks = slices.DeleteFunc(tasks, func(t perdure.Task) bool {
			if _, asked := lives[t.Worker]; !asked {
				lives[t.Worker] = e.elsewhere(r, t.Worker)
			}
			return t.Kind == perdure.KindMonitor || lives[t.Worker] // a monitor runs nothing
		})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("take over tasks: %w", err)
	}
	taken := 0
	for _, task := range tasks {
		waits := task.State == perdure.TaskAwaitingInput && !task.CancelRequested() && task.Links.ChildSession == ""
		if waits { // it is taken up when it is answered (RC13 row 4, RC16)
			continue
		}
		if e.cfg.Shared && taken >= TakeOverBatch {
			break // the next pass goes on (RC12)
		}
		err := e.takeOverTask(ctx, task)
		switch {
		case errors.Is(err, perdure.Lost): // somebody was faster (RC14)
		case store.Broken(err) || ctx.Err() != nil && err != nil:
			return taken, fmt.Errorf("take over task %s: %w", task.ID, err)
		case err != nil: // it keeps nobody else waiting; the next round tries again
			e.cfg.Log.Error("a task was not taken over", "task", task.ID, "error", tool.Chain(err))
		default:
			taken++
		}
	}
	return taken, nil
}

// takeOverTask judges one task and does what was judged.
func (e *Effects) takeOverTask(ctx context.Context, task perdure.Task) error {
	if task.Links.ChildSession != "" {
		return e.watchAgain(ctx, task)
	}
	c, err := e.leftTask(ctx, task)
	if err != nil {
		return err
	}
	target, known := e.tool(task.Tool)
	found := perdure.Found{
		StopRequested: task.CancelRequested(), Class: task.Class,
		Executions: task.Executions, MaxExecutions: e.cfg.MaxExecutions,
	}
	if known {
		found.Class = task.Class.Stricter(target.Spec().Class)
		_, found.Reattach = target.(tool.Reattacher)
		found = e.look(ctx, found, target, toolCall(c.row, task.DeadlineAt))
	}
	how := found.Judge()
	e.cfg.Log.Info("task taken over", "task", task.ID, "tool", task.Tool, "class", task.Class, "attempt", task.Attempt+1, "how", how)
	return e.resumeTask(ctx, c, how)
}

// leftTask reads what the former worker of a task left.
func (e *Effects) leftTask(ctx context.Context, task perdure.Task) (claimedTask, error) {
	c := claimedTask{task: task}
	err := e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		if c.row, err = r.Call(task.LedgerKey()); err != nil {
			return err
		}
		c.owner, err = readOwner(r, task.Session)
		if errors.Is(err, perdure.NotFound) || errors.Is(err, perdure.Invalid) {
			return nil // nobody can run it, and RC15 says so
		}
		if err != nil {
			return err
		}
		row, err := r.Session(task.Session)
		c.owner.of(row)
		return err
	})
	return c, err
}

// resumeTask makes this worker the owner, by a compare-and-set of the attempt, and goes on as judged.
func (e *Effects) resumeTask(ctx context.Context, c claimedTask, how perdure.TakeOver) error {
	runs := how == perdure.RunAgain || how == perdure.RunFirst || how == perdure.Reattach || how == perdure.AskTool
	refused := ""
	if runs {
		refused = e.cannotReattach(c)
	}
	if refused == "" && how == perdure.RunAgain && c.task.Kind == perdure.KindExternalAgent {
		refused = remoteUnknown
	}
	if runs && refused == "" && how != perdure.Adopt && e.full(c.task) {
		return e.queueTask(ctx, c, how)
	}
	again := refused == "" && (how == perdure.RunAgain || how == perdure.RunFirst)
	if again {
		if err := e.prepareTask(ctx, c.task, c.task.Executions+1); err != nil {
			return err
		}
	}
	asked := c.task.CancelRequested()
	c, err := e.ownTask(ctx, c, how, again)
	if err != nil {
		return err
	}
	if c.task.CancelRequested() && !asked {
		how = perdure.StopIt // asked for between the look and the taking (RC13 row 2)
	}
	if refused != "" {
		e.starting.drop(c.task.ID)
		e.group.Go(func() {
			e.endTask(context.WithoutCancel(ctx), c.task, c.row, e.judgeTask(c.task, c.row, refusedTakeOver(c.task, refused), dispatch.End{}))
		})
	} else {
		e.proceed(ctx, c, how)
	}
	e.cfg.Wake(c.task.Session)
	return nil
}

// ownTask takes the task and its ledger row: attempt+1 and a fresh token, in one commit. Taken as well is what a commit
// took whose answer was lost (LG5).
func (e *Effects) ownTask(ctx context.Context, left claimedTask, how perdure.TakeOver, again bool) (owned claimedTask, err error) {
	e.starting.add(left.task.ID)
	err = e.work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) (err error) {
		owned, err = e.ownIn(tx, left, how, again)
		return err
	})
	if err != nil && e.owns(ctx, owned.row) {
		err = nil
	}
	if err != nil {
		e.starting.drop(left.task.ID)
	}
	return owned, err
}

// ownIn is the commit of ownTask.
func (e *Effects) ownIn(tx store.Tx, left claimedTask, how perdure.TakeOver, again bool) (claimedTask, error) {
	u := perdure.TaskUpdate{
		Attempt: left.task.Attempt, IncrementAttempt: true, Worker: e.cfg.Worker, Execution: again,
		Detail: fmt.Sprintf("re-attached (attempt %d)", left.task.Attempt+1),
	}
	if left.task.State == perdure.TaskQueued { // whatever was judged: nobody else starts it now
		u.State = perdure.TaskRunning
	}
	if _, runs := startOf(how); runs && how != perdure.Adopt { // the clock is the attempt's: time in which nothing ran does not count (RC13)
		u.DeadlineAt = tx.Now().Add(e.deadlineOf(left.task))
	}
	change, err := e.updateTask(tx, left.task, u, perdure.TaskReattached{Attempt: left.task.Attempt + 1, How: how})
	if err == nil && change.Answer != perdure.Updated {
		err = perdure.Lost
	}
	if err != nil {
		return claimedTask{}, err
	}
	left.task = change.Task
	return takeRow(tx, left, how)
}

// takeRow follows the task that was taken: the mark in its log, and its ledger row under a fresh token.
func takeRow(tx store.Tx, c claimedTask, how perdure.TakeOver) (claimedTask, error) {
	old := c.row
	c.row.Token, c.row.Worker = newToken(), ownerAfter(how, old.Worker, c.task.Worker)
	c.row.Attempt, c.row.Executions = c.task.Attempt, c.task.Executions
	var note []byte
	if how == perdure.RunAgain { // the log may hold output of the attempt before (BG12)
		note = fmt.Appendf(nil, "attempt %d\n", c.task.Attempt)
	}
	offset, err := tx.AppendLog(c.task.ID, c.task.Attempt, "system", note)
	if err != nil {
		return claimedTask{}, err
	}
	c.logged = offset + int64(len(note))
	return c, tx.TakeCall(old, c.row)
}

// ownerAfter returns the worker that the ledger row of a call names after its take-over.
//
// A call whose execution continues or starts gets the new owner. While it is still open what became of
// the call, the row keeps the dead owner: the token already fences every write of that owner, and the
// same call is not made a second time before the outcome is recorded (see perdure.Call.Withholds).
func ownerAfter(how perdure.TakeOver, dead, next perdure.WorkerID) perdure.WorkerID {
	switch how {
	case perdure.Adopt, perdure.Reattach, perdure.RunAgain, perdure.RunFirst:
		return next
	}
	return dead
}

// queueTask lets a task for whose run there is no place wait in the queue, under a new attempt (RC14, transition a). What
// was judged to run again has no worker there: it is started like any other. One that is to be asked about keeps its dead
// one, and is judged anew when it has a place. A cancel that comes first ends it there.
func (e *Effects) queueTask(ctx context.Context, left claimedTask, how perdure.TakeOver) error {
	if left.task.State == perdure.TaskQueued {
		return nil // it waits already
	}
	u := perdure.TaskUpdate{
		Attempt: left.task.Attempt, IncrementAttempt: true, State: perdure.TaskQueued, Worker: left.task.Worker,
		Detail: fmt.Sprintf("re-attached (attempt %d)", left.task.Attempt+1),
	}
	if how == perdure.RunAgain || how == perdure.RunFirst {
		u.Worker = ""
	}
	err := e.work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		now, err := owned(tx, left.task)
		if err == nil && now.CancelRequested() {
			err = fmt.Errorf("%w: a cancel was asked for", perdure.Lost) // the next pass sees it
		}
		if err != nil {
			return err
		}
		change, err := e.updateTask(tx, left.task, u, perdure.TaskReattached{Attempt: left.task.Attempt + 1, How: how})
		if err == nil && change.Answer != perdure.Updated {
			err = perdure.Lost
		}
		if err != nil {
			return err
		}
		c := left
		c.task = change.Task
		_, err = takeRow(tx, c, how)
		return err
	})
	e.cfg.Wake(left.task.Session)
	return err
}

// proceed goes on with a task that is ours now.
func (e *Effects) proceed(ctx context.Context, c claimedTask, how perdure.TakeOver) {
	start, runs := startOf(how)
	if runs {
		e.runTask(c, start)
		return
	}
	task, row := c.task, c.row
	e.starting.drop(task.ID)
	switch how {
	case perdure.StopIt, perdure.StopLate:
		e.group.Go(func() { e.stopTask(context.WithoutCancel(ctx), task, row, how) })
	case perdure.GiveUp:
		gone := tool.Error("worker heartbeat stopped")
		gone.ErrorAs = perdure.ErrorOrphaned
		v := e.judgeTask(task, row, gone, dispatch.End{})
		v.update.Detail = fmt.Sprintf("gave up after %d executions", row.Executions)
		e.group.Go(func() { e.endTask(context.WithoutCancel(ctx), task, row, v) })
	default:
		e.group.Go(func() {
			e.endTask(context.WithoutCancel(ctx), task, row, e.judgeTask(task, row, unknownResult(), dispatch.End{}))
		})
	}
}

// startOf says how a run begins that was judged so; not runs: there is nothing to run.
func startOf(how perdure.TakeOver) (start taskStart, runs bool) {
	switch how {
	case perdure.Adopt:
		return adoptedTask, true
	case perdure.RunAgain, perdure.RunFirst:
		return freshTask, true
	case perdure.Reattach:
		return foundTask, true
	case perdure.AskTool:
		return askedTask, true
	}
	return freshTask, false
}

// stopTask ends what a dead attempt left behind, then the task.
func (e *Effects) stopTask(ctx context.Context, task perdure.Task, row perdure.Call, how perdure.TakeOver) {
	end := dispatch.End{Cause: perdure.CauseCanceled, SignalledAt: time.Now()}
	if how == perdure.StopLate {
		end.Cause = perdure.CauseDeadline
	}
	target, _ := e.tool(task.Tool)
	if survivor, ok := target.(tool.Survivor); ok {
		if err := e.guarded("stop", func() error { return survivor.Stop(ctx, toolCall(row, time.Time{})) }); err != nil {
			e.cfg.Log.Error("what a task left behind was not stopped", "task", task.ID, "error", tool.Chain(err))
			end.DidNotStop = true
		}
	}
	end.ReturnedAt = time.Now()
	v := e.judgeTask(task, row, causeResult(end.Cause, row), end)
	if how == perdure.StopIt && !end.DidNotStop && !task.Class.Repeatable() { // RC13 row 2
		v.update.Detail = "effects before the cancel are not known"
	}
	e.endTask(ctx, task, row, v)
}

// refusedTakeOver is the end of a task that cannot be taken up again; an at_most_once one is unknown (RC15).
func refusedTakeOver(task perdure.Task, text string) tool.Result {
	if !task.Class.Repeatable() {
		return unknownResult()
	}
	r := tool.Error(text)
	r.ErrorAs = perdure.ErrorOrphaned
	return r
}

// cannotReattach says why a task cannot be taken up again; empty if it can. The texts and their order are
// those of RC15.
func (e *Effects) cannotReattach(c claimedTask) string {
	task := c.task
	if files, _ := e.cfg.Files(task.Session); files == nil {
		return "file store not available; cannot re-attach background run"
	}
	if c.owner == nil {
		return "task registry not available; cannot re-attach background run"
	}
	if task.Spec.Tool == "" {
		return "background_tool spec missing 'tool' field; cannot re-attach"
	}
	target, ok := e.tool(task.Spec.Tool) // whatever the agent may see by now: it could when the task started
	if !ok {
		return fmt.Sprintf("tool '%s' not found in built-in registry; cannot re-attach", task.Spec.Tool)
	}
	if _, ok := target.(tool.Background); !ok && !task.FromCall() {
		return fmt.Sprintf("tool '%s' does not support background execution; cannot re-attach", task.Spec.Tool)
	}
	_, reconciles := target.(tool.Reconciler)
	_, reattaches := target.(tool.Reattacher)
	_, survives := target.(tool.Survivor)
	if !target.Spec().Class.Repeatable() && !reconciles && !reattaches && !survives {
		return fmt.Sprintf("tool '%s' is not idempotent or readonly; re-attach declined", task.Spec.Tool)
	}
	return ""
}

// prepareTask makes the ticket of a supervised run, before its claim (RC20).
func (e *Effects) prepareTask(ctx context.Context, task perdure.Task, execution int) error {
	target, _ := e.tool(task.Tool)
	survivor, ok := target.(tool.Survivor)
	if !ok {
		return nil
	}
	key := task.LedgerKey()
	call := tool.Call{Session: task.Session, ID: key.Call, Task: task.ID, Execution: execution, Tool: task.Tool, Key: key.IdempotencyKey()}
	if err := e.guarded("prepare", func() error { return survivor.Prepare(ctx, call) }); err != nil {
		return fmt.Errorf("prepare %s: %w", task.Tool, err)
	}
	return nil
}
