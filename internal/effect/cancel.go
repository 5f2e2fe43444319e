package effect

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// CancelWish is who asks for the end of a task, and why.
type CancelWish struct{ By, Why string }

// byRuntime is who cancels what nobody waits for.
const byRuntime = "runtime"

// CancelTask makes the wish durable, then pushes it to the work (RC1, RC2). A queued task ends in that
// commit and never starts; one that has ended is left as it is, and its receipt is zero. Asking again is
// answered the same.
func (e *Effects) CancelTask(ctx context.Context, id perdure.TaskID, wish CancelWish) (perdure.CancelReceipt, error) {
	var task perdure.Task
	var tree []perdure.Task
	err := e.cfg.Store.InTx(store.Urgent(ctx), func(tx store.Tx) error { // also on a full disk (R7)
		var err error
		tree = nil
		if task, err = tx.Task("", id); err != nil || task.State.Terminal() || task.CancelRequested() {
			return err
		}
		tree, err = e.cancelTree(tx, task, wish)
		task = tree[0]
		return err
	})
	if err != nil {
		for _, asked := range tree { // in doubt, the next beat pushes it; who only reads its journal is woken here
			if child := asked.Links.ChildSession; child != "" && !refusedWrite(err) {
				e.cfg.Wake(child)
			}
		}
		return perdure.CancelReceipt{}, fmt.Errorf("cancel task %s: %w", id, err)
	}
	if !task.CancelRequested() || task.State.Terminal() && task.State != perdure.TaskCanceled {
		return perdure.CancelReceipt{}, nil
	}
	receipt := perdure.CancelReceipt{RequestedAt: task.CancelRequestedAt}
	if e.pushCancel(ctx, task) {
		receipt.SignalledAt = task.UpdatedAt
	}
	for _, below := range tree[min(1, len(tree)):] {
		e.pushCancel(ctx, below)
	}
	return receipt, nil
}

// pushCancel tells the work of a canceled task to stop, and reports whether somebody heard of it.
func (e *Effects) pushCancel(ctx context.Context, task perdure.Task) (heard bool) {
	e.starting.cancel(task.ID) // first: work that begins right now sees it, and work that has begun is found
	heard = e.cancelWork(task.ID, perdure.CauseCanceled)
	switch {
	case task.Links.ChildSession != "":
		e.cfg.Wake(task.Links.ChildSession)
		heard = true
	case heard:
	case (task.State == perdure.TaskAwaitingInput || e.leftWhileAsking(task)) && !e.elsewhereNow(ctx, task.Worker): // its process died while it asked
		if err := e.takeOverTask(ctx, task); err != nil {
			e.cfg.Log.Error("a task that is canceled was not taken over", "task", task.ID, "error", err)
		}
	}
	e.cfg.Wake(task.Session)
	return heard
}

// cancelWork tells the work of a task to stop, and reports whether it runs here.
func (e *Effects) cancelWork(id perdure.TaskID, cause perdure.Cause) bool {
	return e.cfg.Runner.Cancel(e.workOf(id), cause)
}

// touch is a sign of life of a task's work.
func (e *Effects) touch(id perdure.TaskID) { e.cfg.Runner.Touch(e.workOf(id)) }

// workOf names the work of a task in the runner: that of a call that left its turn here is the call's.
func (e *Effects) workOf(id perdure.TaskID) string {
	if work, ok := e.detached.Load(id); ok {
		return work.(string)
	}
	return string(id)
}

// requestCancel writes the wish; work that has not begun ends with it.
func (e *Effects) requestCancel(tx store.Tx, task perdure.Task, wish CancelWish) (perdure.Task, error) {
	u := perdure.TaskUpdate{Attempt: task.Attempt, Cancel: &perdure.CancelRequest{At: tx.Now(), By: wish.By, Why: wish.Why}}
	facts := []perdure.Fact{perdure.TaskCancelRequested{By: wish.By, Why: wish.Why}}
	queued := task.State == perdure.TaskQueued && !e.cfg.Runner.Running(e.workOf(task.ID)) && !e.leftWhileAsking(task)
	notBegun := queued || task.Kind == perdure.KindMonitor || task.State == perdure.TaskAwaitingInput && task.Executions == 0
	if notBegun {
		u.State, u.Summary, u.Detail = perdure.TaskCanceled, "Canceled by request.", "canceled"
		facts = append(facts, perdure.TaskCancelReceipt{Receipt: perdure.CancelReceipt{RequestedAt: tx.Now(), SignalledAt: tx.Now(), DeadAt: tx.Now()}})
	}
	change, err := e.updateTask(tx, task, u, facts...)
	if err != nil {
		return change.Task, err
	}
	if notBegun && task.Executions > 0 {
		if err := settleQueued(tx, task); err != nil {
			return change.Task, err
		}
	}
	return change.Task, e.voidApprovals(tx, task, wish.By, "")
}

// settleQueued ends the ledger row of a run that was to begin once more and is canceled in the queue: nobody else does.
func settleQueued(tx store.Tx, task perdure.Task) error {
	row, err := tx.Call(task.LedgerKey())
	if err != nil || row.State != perdure.CallRunning {
		return err
	}
	result, err := causeResult(perdure.CauseCanceled, row).Record(row.Key.Call)
	if err != nil {
		return err
	}
	return tx.Settle(row.Key, row.Token, perdure.CallSettled, result)
}

// cancelTree writes the wish for a task and all below it, in one commit (SA11). It returns what was asked.
func (e *Effects) cancelTree(tx store.Tx, task perdure.Task, wish CancelWish) ([]perdure.Task, error) {
	task, err := e.requestCancel(tx, task, wish)
	all := []perdure.Task{task}
	child := task.Links.ChildSession
	if err == nil && task.Kind == perdure.KindMonitor {
		below, err := e.cancelRuns(tx, task, wish)
		return append(all, below...), err
	}
	if err != nil || task.Kind != perdure.KindSubagent || child == "" {
		return all, err
	}
	stopped := []perdure.Event{{Session: child, Actor: wish.By, Fact: perdure.SessionStopped{By: wish.By, Reason: wish.Why}}}
	stamp(stopped, tx.Now())
	if err := tx.Append(child, stopped); err != nil {
		return all, err
	}
	open, err := tx.Tasks(store.TaskFilter{Session: child, States: []perdure.TaskState{perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput}})
	if err != nil {
		return all, err
	}
	for _, below := range open {
		if below.CancelRequested() {
			continue
		}
		tree, err := e.cancelTree(tx, below, wish)
		if err != nil {
			return all, err
		}
		all = append(all, tree...)
	}
	return all, nil
}

// forsake cancels the subagent of a call that has ended, for a reason: nobody waits any more. One that works in the
// background goes on, unless its time is up; a call without one has none to cancel.
func (e *Effects) forsake(ctx context.Context, call perdure.CallKey, why string) {
	var task perdure.Task
	err := e.readBack(ctx, func(r store.Reader) error {
		handle, err := r.Spawn(call)
		if err == nil {
			task, err = r.Task(call.Session, handle.Task)
		}
		return err
	})
	if err == nil && task.State.Live() && (task.Lane == perdure.Foreground || why == string(perdure.CauseDeadline)) {
		e.cancelSurely(ctx, task.ID, CancelWish{By: byRuntime, Why: why})
	}
}

// cancelSurely cancels a task, and tries again in the background while the store is not available.
func (e *Effects) cancelSurely(ctx context.Context, id perdure.TaskID, wish CancelWish) {
	ctx = context.WithoutCancel(ctx)
	if _, err := e.CancelTask(ctx, id, wish); err == nil || final(err) {
		return
	}
	e.group.Go(func() {
		for attempt := 1; ; attempt++ {
			select {
			case <-time.After(perdure.RetryDelay(min(attempt, 5), 0, string(id)) / 10):
			case <-e.cfg.Runner.Done():
				return
			}
			_, err := e.CancelTask(ctx, id, wish)
			if err == nil || final(err) {
				return
			}
			e.cfg.Log.Warn("a task is canceled again", "task", id, "error", err)
		}
	})
}

// stopLate passes a stop on to what a subagent had begun right then: the commit of the stop could not see it (SA11).
func (e *Effects) stopLate(ctx context.Context, s *perdure.Session) {
	for _, task := range s.OpenTasks() {
		if !task.CancelRequested() {
			e.cancelSurely(ctx, task.ID, CancelWish{By: s.Stopped.By, Why: s.Stopped.Reason})
		}
	}
}

// receiptOf completes a receipt from what the journal says of the task's end.
func (e *Effects) receiptOf(ctx context.Context, task perdure.Task, receipt perdure.CancelReceipt) perdure.CancelReceipt {
	if !task.State.Terminal() {
		return receipt
	}
	err := e.cfg.Store.View(ctx, func(r store.Reader) error {
		session, err := r.Session(task.Session)
		if err != nil {
			return err
		}
		events, err := r.Events(task.Session, max(session.LastSeq-200, 0), 0)
		for _, event := range events {
			if told, ok := event.Fact.(perdure.TaskCancelReceipt); ok && event.Task == task.ID {
				receipt = told.Receipt
			}
		}
		return err
	})
	if err != nil {
		e.cfg.Log.Warn("a cancel receipt cannot be read", "task", task.ID, "error", err)
	}
	return receipt
}
