package effect

import "github.com/perdure/perdure"

// RunningTasks lists the committed tasks that run in this process. Call it before a heartbeat, and
// pass the result to ApplyHeartbeat: a task that started after the call is not in the heartbeat's
// answer either, and must not count as lost.
func (e *Effects) RunningTasks() (ids []perdure.TaskID) {
	return append(e.tasks.Running(), e.calls.DetachedTasks()...)
}

// SupersedeAll stops all work of this worker as superseded: its lease has expired, so it must write
// nothing more.
func (e *Effects) SupersedeAll() {
	e.tasks.Supersede()
	e.calls.Supersede()
}
