package taskrecord

import "github.com/perdure/perdure"

// SetWork sets the id of the work of a call that becomes a task.
func (rs *Records) SetWork(id perdure.TaskID, work string) { rs.detached.Store(id, work) }

// DropWork forgets the id of a task's work: it has returned, or the call did not become a task.
func (rs *Records) DropWork(id perdure.TaskID) { rs.detached.Delete(id) }

// WorkID returns the id of a task's work in the runner. The work of a call that left its turn in
// this process keeps the id of the call.
func (rs *Records) WorkID(id perdure.TaskID) string {
	if work, ok := rs.detached.Load(id); ok {
		return work.(string)
	}
	return string(id)
}

// CancelWork signals the work of a task, and reports whether it runs here.
func (rs *Records) CancelWork(id perdure.TaskID, cause perdure.Cause) bool {
	return rs.core.Runner.Cancel(rs.WorkID(id), cause)
}

// StopWork signals the work of a task whose cancel was requested, with force if that was requested,
// too. It reports whether the work runs here.
func (rs *Records) StopWork(task perdure.Task) bool {
	if task.ForceRequested() {
		return rs.core.Runner.Force(rs.WorkID(task.ID), perdure.CauseCanceled)
	}
	return rs.CancelWork(task.ID, perdure.CauseCanceled)
}

// Touch resets the stall clock of a task's work.
func (rs *Records) Touch(id perdure.TaskID) { rs.core.Runner.Touch(rs.WorkID(id)) }
