package effect

import (
	"fmt"

	"github.com/perdure/perdure"
)

// OwnedElsewhere is the error of Take for a session that another live worker drives. It is of kind
// Lost.
var OwnedElsewhere = fmt.Errorf("%w: another worker drives it", perdure.Lost)

// RunningTasks lists the committed tasks that run in this process. Call it before a heartbeat, and
// pass the result to Beat: a task that started after the call is not in the heartbeat's answer
// either, and must not count as lost.
func (e *Effects) RunningTasks() (ids []perdure.TaskID) {
	return append(e.tasks.Running(), e.calls.DetachedTasks()...)
}

// SupersedeAll stops all work of this worker as superseded: its lease has expired, so it must write
// nothing more.
func (e *Effects) SupersedeAll() {
	e.tasks.Supersede()
	e.calls.Supersede()
}
