package taskrun

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/store"
)

// Cancel records a cancel durably, then signals the work. A queued task ends in the same commit
// and never starts. A task that has ended is left as it is, and its receipt is zero. Asking again
// returns the same receipt; asking again with force ends the grace period.
func (ts *Tasks) Cancel(ctx context.Context, id perdure.TaskID, wish taskrecord.CancelIntent) (perdure.CancelReceipt, error) {
	var task perdure.Task
	var tree []perdure.Task
	err := ts.core.Store.InTx(store.Urgent(ctx), func(tx store.Tx) error { // a cancel must work even on a full disk
		var err error
		tree = nil
		if task, err = tx.Tasks().Get("", id); err != nil || wish.Recorded(task) {
			return err
		}
		tree, err = ts.records.CancelTree(tx, task, wish)
		task = tree[0]
		return err
	})
	if err != nil {
		// If the commit is in doubt, the next heartbeat signals the work. A subagent has no work of
		// its own and only reads its journal, so it is woken here.
		for _, asked := range tree {
			if child := asked.Links.ChildSession; child != "" && !core.RefusedWrite(err) {
				ts.core.Wake(child)
			}
		}
		return perdure.CancelReceipt{}, fmt.Errorf("cancel task %s: %w", id, err)
	}
	if !task.CancelRequested() || task.State.Terminal() && task.State != perdure.TaskCanceled {
		return perdure.CancelReceipt{}, nil
	}
	receipt := perdure.CancelReceipt{RequestedAt: task.CancelRequestedAt}
	if ts.SignalCancel(ctx, task) {
		receipt.SignalledAt = task.UpdatedAt
	}
	for _, below := range tree[min(1, len(tree)):] {
		ts.SignalCancel(ctx, below)
	}
	return receipt, nil
}

// SignalCancel signals the work of a canceled task, and reports whether anything received the
// signal.
func (ts *Tasks) SignalCancel(ctx context.Context, task perdure.Task) (received bool) {
	// This comes first. Work that is just starting sees the mark; work that has started is found
	// below.
	ts.Starting.cancel(task)
	received = ts.records.StopWork(task)
	switch {
	case task.Links.ChildSession != "":
		ts.core.Wake(task.Links.ChildSession)
		received = true
	case received:
	case ts.core.Granted(): // the worker that gets the grant sees the cancel
		ts.core.StartQueued()
	case (task.State == perdure.TaskAwaitingInput || ts.records.StartedElsewhere(task)) && !ts.core.OtherWorkerAliveNow(ctx, task.Worker):
		// its process crashed while it waited for an answer
		if err := ts.takeOverTask(ctx, task, core.Grant{}); err != nil {
			ts.core.Log.Error("canceled task not taken over", "task", task.ID, "error", err)
		}
	case task.ForceRequested() && task.State.Live() && task.Worker == ts.core.Worker:
		// crash recovery is stopping what a dead worker left, with a grace period
		ts.core.Group.Go(func() { ts.forceRemains(context.WithoutCancel(ctx), task) })
	}
	ts.core.Wake(task.Session)
	return received
}

// forceRemains ends the grace period of the process of a task that is being stopped after a crash.
// The end of the process ends the task.
func (ts *Tasks) forceRemains(ctx context.Context, task perdure.Task) {
	c, err := ts.readLeftTask(ctx, task)
	if err != nil {
		ts.core.Log.Error("canceled task not forced", "task", task.ID, "error", err)
		return
	}
	target, _ := ts.toolset.Find(task.Tool)
	ts.environment.ForceOf(target, core.ToolCall(c.Row, time.Time{}))()
}

// Abandon cancels the subagent of a call that has ended, because nobody waits for its answer any
// more. A background subagent continues, unless its deadline has passed. A call without a subagent
// needs nothing.
func (ts *Tasks) Abandon(ctx context.Context, call perdure.CallKey, why string) {
	var task perdure.Task
	err := ts.core.ReadBack(ctx, func(r store.Reader) error {
		handle, err := r.Spawns().Get(call)
		if err == nil {
			task, err = r.Tasks().Get(call.Session, handle.Task)
		}
		return err
	})
	if err == nil && task.State.Live() && (task.Lane == perdure.Foreground || why == string(perdure.CauseDeadline)) {
		ts.CancelWithRetry(ctx, task.ID, taskrecord.CancelIntent{By: core.ActorRuntime, Why: why})
	}
}

// CancelWithRetry cancels a task, and retries in the background while the store is unavailable.
func (ts *Tasks) CancelWithRetry(ctx context.Context, id perdure.TaskID, wish taskrecord.CancelIntent) {
	ctx = context.WithoutCancel(ctx)
	if _, err := ts.Cancel(ctx, id, wish); err == nil || core.IsFinal(err) {
		return
	}
	ts.core.Group.Go(func() {
		for attempt := 1; ; attempt++ {
			select {
			case <-time.After(perdure.RetryDelay(min(attempt, 5), 0, string(id)) / 10):
			case <-ts.core.Runner.Done():
				return
			}
			_, err := ts.Cancel(ctx, id, wish)
			if err == nil || core.IsFinal(err) {
				return
			}
			ts.core.Log.Warn("cancel retried", "task", id, "error", err)
		}
	})
}

// ReceiptOf completes a receipt from the journal, once the task has ended.
func (ts *Tasks) ReceiptOf(ctx context.Context, task perdure.Task,
	receipt perdure.CancelReceipt) perdure.CancelReceipt {
	if !task.State.Terminal() {
		return receipt
	}
	err := ts.core.Store.View(ctx, func(r store.Reader) error {
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
		ts.core.Log.Warn("cancel receipt not read", "task", task.ID, "error", err)
	}
	return receipt
}

// ApplyHeartbeat stops the tasks that the store reports as canceled. Of the tasks that ran before
// the heartbeat, it also stops those that another worker owns now.
func (ts *Tasks) ApplyHeartbeat(ran []perdure.TaskID, beat store.Heartbeat) {
	for _, id := range beat.Canceled {
		ts.records.CancelWork(id, perdure.CauseCanceled)
	}
	for _, task := range beat.Tasks {
		if task.ForceRequested() {
			ts.records.StopWork(task)
		}
	}
	if !ts.core.Shared {
		return
	}
	ours := map[perdure.TaskID]bool{}
	for _, task := range beat.Tasks {
		ours[task.ID] = true
	}
	for _, id := range ran {
		if !ours[id] {
			ts.records.CancelWork(id, perdure.CauseSuperseded)
		}
	}
}

// Running lists the attempts that run in this process.
func (ts *Tasks) Running() (ids []perdure.TaskID) {
	ts.running.Range(func(id, _ any) bool {
		ids = append(ids, id.(perdure.TaskID))
		return true
	})
	return ids
}

// Supersede stops the attempts that run in this process as superseded.
func (ts *Tasks) Supersede() {
	ts.running.Range(func(id, _ any) bool {
		ts.core.Runner.Cancel(string(id.(perdure.TaskID)), perdure.CauseSuperseded)
		return true
	})
}
