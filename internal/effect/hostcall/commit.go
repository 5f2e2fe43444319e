package hostcall

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/admission"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/store"
)

// commitHostCall commits a host's call. It runs at once, or waits in the queue of the process or
// for an approval.
func (hc *Calls) commitHostCall(ctx context.Context, task perdure.Task, starter hostStart) (perdure.Task, error) {
	if err := hc.tasks.Prepare(ctx, task, 1); err != nil {
		return task, err
	}
	var claimed perdure.Call
	stored := task
	starter.works = hc.core.Running() && !hc.core.Granted() && hc.core.Leads()
	hc.tasks.Starting.Add(task.ID)
	err := hc.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) (err error) {
		stored, claimed, err = hc.hostCallInTx(tx, task, starter)
		return err
	})
	if claimed.Token != "" && (err == nil || hc.tasks.OwnsClaim(ctx, claimed)) {
		hc.tasks.Run(taskrun.Claimed{Task: stored, Row: claimed, Owner: starter.owner}, taskrun.FreshTask)
		return stored, nil
	}
	hc.tasks.Starting.Drop(task.ID)
	hc.core.StartQueued() // a slot may have become free before the call was queued
	return stored, err
}

// hostStart is what the commit of a host's call needs besides the task.
type hostStart struct {
	owner       *core.Owner
	permissions []perdure.Permission // an approval is needed for them first
	// withhold refuses the call while the outcome of an earlier call with the same content is
	// unknown.
	withhold bool
	// works says that the call may start here. Before the engine runs its worker is not registered,
	// and other workers would treat its claims as those of a dead worker.
	works bool
}

// hostCallInTx is the commit of commitHostCall. A call that cannot start now is queued.
func (hc *Calls) hostCallInTx(tx store.Tx, task perdure.Task, by hostStart) (perdure.Task, perdure.Call, error) {
	if stored, err := tx.Tasks().Get(task.Session, task.ID); err == nil {
		return stored, perdure.Call{}, nil // committed before
	}
	if by.withhold {
		if err := hc.admission.WithholdTask(tx.Reader(), task, admission.Repeat{Asked: task.ArgsHash, Resolved: true}); err != nil {
			return task, perdure.Call{}, err
		}
	}
	if err := hc.records.Reserve(tx, by.owner, task); err != nil {
		return task, perdure.Call{}, err
	}
	if len(by.permissions) > 0 {
		asked, err := hc.records.AwaitApproval(tx, task, by.permissions)
		return asked.Task, perdure.Call{}, err
	}
	now := tx.Now()
	task.State, task.CreatedAt, task.UpdatedAt, task.DetachedAt = perdure.TaskQueued, now, now, now
	_, ofProcess := hc.core.Runner.SlotsInUse(task.Session)
	free := by.works && (hc.core.Limits.SlotsPerProcess == 0 || ofProcess < hc.core.Limits.SlotsPerProcess)
	if free {
		task.State, task.StateDetail, task.Worker, task.Executions = perdure.TaskRunning, "Starting", hc.core.Worker, 1
		task.StartedAt, task.HeartbeatAt, task.DeadlineAt = now, now, now.Add(hc.toolset.DeadlineOf(task))
	}
	events := []perdure.Event{taskrecord.Event(task, perdure.TaskCreated{Task: task})}
	core.Stamp(events, now)
	if err := tx.Journal().Append(task.Session, events); err != nil {
		return task, perdure.Call{}, err
	}
	if _, _, err := tx.Tasks().Create(task); err != nil || !free {
		return task, perdure.Call{}, err
	}
	claimed, err := hc.records.Claim(tx, task)
	return task, claimed, err
}
