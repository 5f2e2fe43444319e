package effect

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/store"
)

// CancelTask records a cancel durably, then signals the work. A queued task ends in the same commit
// and never starts. A task that has ended is left as it is, and its receipt is zero. Asking again
// returns the same receipt.
func (e *Effects) CancelTask(ctx context.Context, id perdure.TaskID, wish taskrecord.CancelIntent) (perdure.CancelReceipt, error) {
	var task perdure.Task
	var tree []perdure.Task
	err := e.core.Store.InTx(store.Urgent(ctx), func(tx store.Tx) error { // a cancel must work even on a full disk
		var err error
		tree = nil
		if task, err = tx.Tasks().Get("", id); err != nil || task.State.Terminal() || task.CancelRequested() {
			return err
		}
		tree, err = e.records.CancelTree(tx, task, wish)
		task = tree[0]
		return err
	})
	if err != nil {
		// If the commit is in doubt, the next heartbeat signals the work. A subagent has no work of
		// its own and only reads its journal, so it is woken here.
		for _, asked := range tree {
			if child := asked.Links.ChildSession; child != "" && !core.RefusedWrite(err) {
				e.core.Wake(child)
			}
		}
		return perdure.CancelReceipt{}, fmt.Errorf("cancel task %s: %w", id, err)
	}
	if !task.CancelRequested() || task.State.Terminal() && task.State != perdure.TaskCanceled {
		return perdure.CancelReceipt{}, nil
	}
	receipt := perdure.CancelReceipt{RequestedAt: task.CancelRequestedAt}
	if e.signalCancel(ctx, task) {
		receipt.SignalledAt = task.UpdatedAt
	}
	for _, below := range tree[min(1, len(tree)):] {
		e.signalCancel(ctx, below)
	}
	return receipt, nil
}

// signalCancel signals the work of a canceled task, and reports whether anything received the
// signal.
func (e *Effects) signalCancel(ctx context.Context, task perdure.Task) (received bool) {
	// This comes first. Work that is just starting sees the mark; work that has started is found
	// below.
	e.starting.cancel(task.ID)
	received = e.records.CancelWork(task.ID, perdure.CauseCanceled)
	switch {
	case task.Links.ChildSession != "":
		e.core.Wake(task.Links.ChildSession)
		received = true
	case received:
	case (task.State == perdure.TaskAwaitingInput || e.records.StartedElsewhere(task)) && !e.core.OtherWorkerAliveNow(ctx, task.Worker):
		// its process crashed while it waited for an answer
		if err := e.takeOverTask(ctx, task); err != nil {
			e.core.Log.Error("canceled task not taken over", "task", task.ID, "error", err)
		}
	}
	e.core.Wake(task.Session)
	return received
}

// abandon cancels the subagent of a call that has ended, because nobody waits for its answer any
// more. A background subagent continues, unless its deadline has passed. A call without a subagent
// needs nothing.
func (e *Effects) abandon(ctx context.Context, call perdure.CallKey, why string) {
	var task perdure.Task
	err := e.core.ReadBack(ctx, func(r store.Reader) error {
		handle, err := r.Spawns().Get(call)
		if err == nil {
			task, err = r.Tasks().Get(call.Session, handle.Task)
		}
		return err
	})
	if err == nil && task.State.Live() && (task.Lane == perdure.Foreground || why == string(perdure.CauseDeadline)) {
		e.cancelWithRetry(ctx, task.ID, taskrecord.CancelIntent{By: core.ActorRuntime, Why: why})
	}
}

// cancelWithRetry cancels a task, and retries in the background while the store is unavailable.
func (e *Effects) cancelWithRetry(ctx context.Context, id perdure.TaskID, wish taskrecord.CancelIntent) {
	ctx = context.WithoutCancel(ctx)
	if _, err := e.CancelTask(ctx, id, wish); err == nil || core.IsFinal(err) {
		return
	}
	e.core.Group.Go(func() {
		for attempt := 1; ; attempt++ {
			select {
			case <-time.After(perdure.RetryDelay(min(attempt, 5), 0, string(id)) / 10):
			case <-e.core.Runner.Done():
				return
			}
			_, err := e.CancelTask(ctx, id, wish)
			if err == nil || core.IsFinal(err) {
				return
			}
			e.core.Log.Warn("cancel retried", "task", id, "error", err)
		}
	})
}

// cancelLateStarts cancels what a stopped subagent was starting at the time of the stop: the commit
// of the stop could not see it.
func (e *Effects) cancelLateStarts(ctx context.Context, s *perdure.Session) {
	for _, task := range s.OpenTasks() {
		if !task.CancelRequested() {
			e.cancelWithRetry(ctx, task.ID, taskrecord.CancelIntent{By: s.Stopped.By, Why: s.Stopped.Reason})
		}
	}
}

// receiptOf completes a receipt from the journal, once the task has ended.
func (e *Effects) receiptOf(ctx context.Context, task perdure.Task,
	receipt perdure.CancelReceipt) perdure.CancelReceipt {
	if !task.State.Terminal() {
		return receipt
	}
	err := e.core.Store.View(ctx, func(r store.Reader) error {
		session, err := r.Sessions().Get(task.Session)
		if err != nil {
			return err
		}
		events, err := r.Journal().Events(task.Session, max(session.LastSeq-200, 0), 0)
		for _, event := range events {
			if fact, ok := event.Fact.(perdure.TaskCancelReceipt); ok && event.Task == task.ID {
				receipt = fact.Receipt
			}
		}
		return err
	})
	if err != nil {
		e.core.Log.Warn("cancel receipt not read", "task", task.ID, "error", err)
	}
	return receipt
}
