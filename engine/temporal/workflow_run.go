package temporal

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// Run runs one task until its end is committed. A task that waits for a person needs no process:
// the workflow completes, and the answer starts another one with the same id.
func (w workflows) Run(ctx workflow.Context, s runState) error {
	wakes := workflow.GetSignalChannel(ctx, wakeSignal)
	for {
		receive(wakes, s.heard)
		if canceled(ctx) {
			stop(ctx, cancelActivity, s.Task)
			return ctx.Err()
		}
		ran, wait := w.runTask(ctx, &s)
		switch {
		case ran.Ended:
			receive(wakes, s.heard) // there is nothing left to do for them
			return nil
		case canceled(ctx):
			return ctx.Err()
		case ran.Waits:
			heard := false
			await(ctx, wakes, linger, func(m wake) {
				heard = true
				s.heard(m)
			})
			if !heard && !canceled(ctx) {
				return nil
			}
		case ran.Full:
			s.Full++
			await(ctx, wakes, doubled(fullWait, s.Full-1, fullWaitLimit), s.heard)
		default:
			s.Full = 0
			pause(ctx, wait)
		}
		if !canceled(ctx) && long(ctx) {
			receive(wakes, s.heard)
			return workflow.NewContinueAsNewError(ctx, runType, s)
		}
	}
}

// runTask runs one activity. It returns its result, empty after an error, and how long to wait
// before the next one.
func (w workflows) runTask(ctx workflow.Context, s *runState) (runResult, time.Duration) {
	var ran runResult
	j := job{s.options(ctx, w.heartbeat), runTaskActivity, cancelActivity}
	if err := perform(ctx, j, s.next(s.Task), &ran); err != nil {
		return runResult{}, s.failed(err)
	}
	taken, wait := s.returned(ran.workResult)
	if taken && !ran.Ended && !ran.Waits && !ran.Full { // a host that says nothing is asked again later
		wait = backOff
	}
	return ran, wait
}
