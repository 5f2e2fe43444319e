package effect

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// CancelWish is who asks for the end of a task, and why.
type CancelWish struct{ By, Why string }

// CancelTask makes the wish durable, then pushes it to the work (RC1, RC2). A queued task ends in that
// commit and never starts; one that has ended is left as it is, and its receipt is zero. Asking again is
// answered the same.
func (e *Effects) CancelTask(ctx context.Context, id perdure.TaskID, wish CancelWish) (perdure.CancelReceipt, error) {
	var task perdure.Task
	var tree []perdure.Task
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
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
	notBegun := queued || task.State == perdure.TaskAwaitingInput && task.Executions == 0
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
