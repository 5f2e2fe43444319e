package local

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect"
)

// Blind keeps the lease valid by the worker's own clock, as if its process were stopped and none of
// its timers fired. Only refusals by the store stop it then.
func Blind(e *Engine) {
	e.lease.mu.Lock()
	defer e.lease.mu.Unlock()
	e.lease.until = time.Now().Add(1000 * time.Hour)
	if e.lease.timer != nil {
		e.lease.timer.Stop()
	}
}

// CreateMonitor creates a schedule with a monitor, as a call of a model does.
func (e *Engine) CreateMonitor(ctx context.Context, s perdure.Schedule, call perdure.CallID) (perdure.Schedule, error) {
	return e.createSchedule(ctx, s, &effect.ScheduleCall{Call: call, At: time.Unix(1, 0), Monitor: true})
}
