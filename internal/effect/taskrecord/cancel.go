package taskrecord

import (
	"errors"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
)

// CancelIntent is a request to cancel a task: its author and the reason. With Force the work has no
// grace period.
type CancelIntent struct {
	By, Why string
	Force   bool
}

// Recorded reports whether a request adds nothing to what a task has recorded. The first request
// counts, and the first one with force.
func (wish CancelIntent) Recorded(task perdure.Task) bool {
	return task.State.Terminal() || task.CancelRequested() && (!wish.Force || task.ForceRequested())
}

// requestCancel records a cancel. Work that has not started ends with it.
func (rs *Records) requestCancel(tx store.Tx, task perdure.Task, wish CancelIntent) (perdure.Task, error) {
	u := perdure.TaskUpdate{Attempt: task.Attempt,
		Cancel: &perdure.CancelRequest{At: tx.Now(), By: wish.By, Why: wish.Why, Force: wish.Force}}
	facts := []perdure.Fact{perdure.TaskCancelRequested{By: wish.By, Why: wish.Why, Force: wish.Force}}
	queued := task.State == perdure.TaskQueued && !rs.core.Runner.Running(rs.WorkID(task.ID)) && !rs.StartedElsewhere(task)
	notStarted := queued || task.Kind == perdure.KindMonitor || task.State == perdure.TaskAwaitingInput &&
		task.Executions == 0
	if notStarted {
		u.State, u.Summary, u.Detail = perdure.TaskCanceled, "Canceled by request.", "canceled"
		facts = append(facts, perdure.TaskCancelReceipt{Receipt: perdure.CancelReceipt{RequestedAt: tx.Now(),
			SignalledAt: tx.Now(), DeadAt: tx.Now()}})
	}
	change, err := rs.Update(tx, task, u, facts...)
	if err != nil {
		return change.Task, err
	}
	if notStarted && task.Executions > 0 {
		if err := settleQueued(tx, task); err != nil {
			return change.Task, err
		}
	}
	return change.Task, rs.VoidApprovals(tx, task, wish.By, "")
}

// settleQueued settles the ledger row of a task that is canceled while it is queued for another
// execution: no work will do it.
func settleQueued(tx store.Tx, task perdure.Task) error {
	row, err := tx.Calls().Get(task.LedgerKey())
	if err != nil || row.State != perdure.CallRunning {
		return err
	}
	result, err := core.CauseResult(perdure.CauseCanceled, row).Record(row.Key.Call)
	if err != nil {
		return err
	}
	return tx.Calls().Settle(row.Key, row.Token, perdure.CallSettled, result)
}

// CancelTree records a cancel for a task and everything below it, in one commit. It returns the
// tasks it canceled, the given one first.
func (rs *Records) CancelTree(tx store.Tx, task perdure.Task, wish CancelIntent) ([]perdure.Task, error) {
	again := task.CancelRequested()
	task, err := rs.requestCancel(tx, task, wish)
	all := []perdure.Task{task}
	child := task.Links.ChildSession
	if err == nil && task.Kind == perdure.KindMonitor {
		below, err := rs.cancelRuns(tx, task, wish)
		return append(all, below...), err
	}
	if err != nil || task.Kind != perdure.KindSubagent || child == "" {
		return all, err
	}
	resumed := false
	if again { // a person may have continued the subagent since the first request
		session, err := rs.core.Fold(tx.Reader(), child)
		if err != nil {
			return all, err
		}
		resumed = session.Stopped == nil
	}
	if !resumed {
		stopped := []perdure.Event{{Session: child, Actor: wish.By,
			Fact: perdure.SessionStopped{By: wish.By, Reason: wish.Why, Force: wish.Force}}}
		core.Stamp(stopped, tx.Now())
		if err := tx.Journal().Append(child, stopped); err != nil {
			return all, err
		}
	}
	open, err := tx.Tasks().List(store.TaskFilter{Session: child,
		States: []perdure.TaskState{perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput}})
	if err != nil {
		return all, err
	}
	for _, below := range open {
		if wish.Recorded(below) || resumed && !below.CancelRequested() {
			continue
		}
		tree, err := rs.CancelTree(tx, below, wish)
		if err != nil {
			return all, err
		}
		all = append(all, tree...)
	}
	return all, nil
}

// StartedElsewhere reports a queued task that another worker started. Either it was answered and
// found no slot, or it was taken over without a slot and still has to be judged. If the other
// worker is dead, the effect class decides what becomes of it, as for all interrupted work. A task
// without a worker may simply start: an operator let it run again, or it was judged to run again
// and waits for its slot.
func (rs *Records) StartedElsewhere(t perdure.Task) bool {
	return t.State == perdure.TaskQueued && t.Executions > 0 && t.Worker != "" && t.Worker != rs.core.Worker
}

// cancelRuns disables the schedule of a canceled monitor and cancels the runs of the schedule, in
// the same commit.
func (rs *Records) cancelRuns(tx store.Tx, monitor perdure.Task, wish CancelIntent) (all []perdure.Task, err error) {
	s, err := tx.Schedules().Get(monitor.Spec.Schedule)
	if err == nil && (s.Enabled || !s.QueuedNominal.IsZero()) {
		s = s.Disarm("canceled")
		s.UpdatedAt = tx.Now()
		err = errors.Join(rs.AppendScheduleFact(tx, s, wish.By,
			perdure.ScheduleCanceled{Schedule: s.ID, By: wish.By, Why: wish.Why}), tx.Schedules().Put(s,
			store.ScheduleCaps{}))
	}
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return nil, err
	}
	return rs.cancelRunsOf(tx, monitor.Session, monitor.Spec.Schedule, wish)
}

// cancelRunsOf cancels the live runs of a schedule.
func (rs *Records) cancelRunsOf(tx store.Tx, session perdure.SessionID, id perdure.ScheduleID,
	wish CancelIntent) (all []perdure.Task, err error) {
	open, err := tx.Tasks().List(store.TaskFilter{Session: session,
		States: []perdure.TaskState{perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput}})
	for _, t := range open {
		if err != nil || t.Spec.Schedule != id || t.Kind == perdure.KindMonitor || wish.Recorded(t) {
			continue
		}
		var tree []perdure.Task
		tree, err = rs.CancelTree(tx, t, wish)
		all = append(all, tree...)
	}
	return all, err
}
