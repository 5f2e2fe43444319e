package effect

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/foreground"
)

// CallRun is a foreground call that a driver runs.
type CallRun struct {
	Session *perdure.Session // as of the commit that claimed it
	Drive   *Drive
	Command perdure.RunCall
	Done    func(core.Outcome) // called once, from another goroutine; not called if the engine shuts down
}

// StartCall runs a claimed call, or takes it over, and reports its outcome through run.Done.
func (e *Effects) StartCall(ctx context.Context, run CallRun) error {
	held, id := run.Drive.row, run.Command.Call.ID
	request := foreground.Request{Session: run.Session, Row: &held, Command: run.Command, Done: run.Done}
	if row, ok := run.Drive.claimed[id]; ok {
		delete(run.Drive.claimed, id)
		request.Claimed = &row
	}
	return e.calls.Start(ctx, request)
}

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
