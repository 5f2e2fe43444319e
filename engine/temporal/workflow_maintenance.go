package temporal

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Maintenance keeps one activity running, which fires schedules, cleans up and reconciles. When its
// process dies, the activity starts in another one. There is one such workflow for each prefix, so
// the work is done once however many processes there are.
func (w workflows) Maintenance(ctx workflow.Context, s maintenanceState) error {
	o := workflow.ActivityOptions{
		HeartbeatTimeout:    w.heartbeat,
		StartToCloseTimeout: termLimit,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
	}
	for {
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), maintainActivity).Get(ctx, nil)
		var wait time.Duration
		switch {
		case canceled(ctx):
			return ctx.Err()
		case err == nil, temporal.IsTimeoutError(err):
			s.Failures = 0
		default:
			s.Failures++
			wait = doubled(backOff, s.Failures-1, backOffLimit)
		}
		pause(ctx, wait)
		if !canceled(ctx) && long(ctx) {
			return workflow.NewContinueAsNewError(ctx, maintenanceType, s)
		}
	}
}
