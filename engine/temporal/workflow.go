package temporal

import (
	"time"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// workflows are the three workflows. They change by workflow.GetVersion only: recorded histories of
// each version are replayed in the tests.
type workflows struct {
	heartbeat time.Duration // the heartbeat timeout of activities; a replay does not compare it
}

// register registers the workflows under their stable names.
func (w workflows) register(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(w.Session, workflow.RegisterOptions{Name: sessionType})
	r.RegisterWorkflowWithOptions(w.Run, workflow.RegisterOptions{Name: runType})
	r.RegisterWorkflowWithOptions(w.Maintenance, workflow.RegisterOptions{Name: maintenanceType})
}

// canceled reports whether an operator has canceled the workflow.
func canceled(ctx workflow.Context) bool { return ctx.Err() != nil }

// long reports whether the history is so long that the workflow is to be continued as a new one.
func long(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() >= eventsLimit
}

// pause waits for d, or until an operator cancels the workflow.
func pause(ctx workflow.Context, d time.Duration) {
	if d > 0 {
		_ = workflow.NewTimer(ctx, d).Get(ctx, nil) // it fails only when canceled, which every caller asks next
	}
}

// receive takes every signal that has arrived.
func receive(wakes workflow.ReceiveChannel, heard func(wake)) {
	for {
		var w wake
		if !wakes.ReceiveAsync(&w) {
			return
		}
		heard(w)
	}
}

// await waits for a signal, for a cancel, or for d. Afterwards it takes every signal that has
// arrived: one can stand in the same task as the end of the timer.
func await(ctx workflow.Context, wakes workflow.ReceiveChannel, d time.Duration, heard func(wake)) {
	timed, stop := workflow.WithCancel(ctx)
	defer stop()
	s := workflow.NewSelector(ctx)
	s.AddFuture(workflow.NewTimer(timed, d), func(workflow.Future) {})
	s.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {})
	s.AddReceive(wakes, func(c workflow.ReceiveChannel, _ bool) {
		var w wake
		c.Receive(ctx, &w)
		heard(w)
	})
	s.Select(ctx)
	receive(wakes, heard)
}

// job is an activity that works on a session or task.
type job struct {
	options  workflow.ActivityOptions
	name     string
	onCancel string // the activity that writes a cancel to the store
}

// perform runs an activity that works on a session or task. When an operator cancels the workflow,
// the activity of onCancel writes that to the store, and the work ends by it: an activity
// that was started is waited for, and one that no process has started yet is withdrawn. If the
// workflow is canceled when perform returns, the store knows it.
func perform(ctx workflow.Context, j job, in workInput, out any) error {
	free, _ := workflow.NewDisconnectedContext(ctx)
	work, withdraw := workflow.WithCancel(workflow.WithActivityOptions(free, j.options))
	f := workflow.ExecuteActivity(work, j.name, in)
	s := workflow.NewSelector(ctx)
	s.AddFuture(f, func(workflow.Future) {})
	s.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {})
	s.Select(ctx)
	if canceled(ctx) {
		stop(ctx, j.onCancel, in.ID)
		withdraw()
	}
	return f.Get(free, out)
}

// stop tells the store that an operator has canceled the workflow of id. It is tried until it
// succeeds: the workflow would otherwise end and the work continue.
func stop(ctx workflow.Context, name, id string) {
	free, _ := workflow.NewDisconnectedContext(ctx)
	free = workflow.WithActivityOptions(free, workflow.ActivityOptions{
		TaskQueue: workflow.GetInfo(ctx).TaskQueueName, StartToCloseTimeout: time.Minute,
	})
	_ = workflow.ExecuteActivity(free, name, workInput{ID: id}).Get(free, nil) // it fails only where a retry is useless
}
