package effect

import (
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// OwnedElsewhere is the error of Take for a session that another live worker drives. It is of kind
// Lost.
var OwnedElsewhere = fmt.Errorf("%w: another worker drives it", perdure.Lost)

// RunningTasks lists the committed tasks that run in this process. Call it before a heartbeat, and
// pass the result to Beat: a task that started after the call is not in the heartbeat's answer
// either, and must not count as lost.
func (e *Effects) RunningTasks() (ids []perdure.TaskID) {
	return append(e.runningTasks(), e.detachedTasks()...)
}

// runningTasks lists the attempts that run in this process.
func (e *Effects) runningTasks() (ids []perdure.TaskID) {
	e.tasks.Range(func(id, _ any) bool {
		ids = append(ids, id.(perdure.TaskID))
		return true
	})
	return ids
}

// detachedTasks lists the tasks of calls that left their turns and still run in this process.
func (e *Effects) detachedTasks() (ids []perdure.TaskID) {
	e.calls.Range(func(_, c any) bool {
		if task, _ := c.(*callRun).taskAndRow(); task.ID != "" {
			ids = append(ids, task.ID)
		}
		return true
	})
	return ids
}

// ApplyHeartbeat stops the tasks that the store reports as canceled. Of the tasks that ran before
// the heartbeat, it also stops those that another worker owns now.
func (e *Effects) ApplyHeartbeat(ran []perdure.TaskID, beat store.Heartbeat) {
	for _, id := range beat.Canceled {
		e.records.CancelWork(id, perdure.CauseCanceled)
	}
	if !e.core.Shared {
		return
	}
	ours := map[perdure.TaskID]bool{}
	for _, task := range beat.Tasks {
		ours[task.ID] = true
	}
	for _, id := range ran {
		if !ours[id] {
			e.records.CancelWork(id, perdure.CauseSuperseded)
		}
	}
}

// SupersedeAll stops all work of this worker as superseded: its lease has expired, so it must write
// nothing more.
func (e *Effects) SupersedeAll() {
	e.supersedeTasks()
	e.supersedeCalls()
}

// supersedeTasks stops the attempts that run in this process as superseded.
func (e *Effects) supersedeTasks() {
	e.tasks.Range(func(id, _ any) bool {
		e.core.Runner.Cancel(string(id.(perdure.TaskID)), perdure.CauseSuperseded)
		return true
	})
}

// supersedeCalls stops the foreground calls of this process as superseded.
func (e *Effects) supersedeCalls() {
	e.calls.Range(func(key, _ any) bool {
		e.core.Runner.Cancel(key.(perdure.CallKey).String(), perdure.CauseSuperseded)
		return true
	})
}
