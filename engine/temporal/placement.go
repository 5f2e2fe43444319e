package temporal

import (
	"errors"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Times that workflows measure. A changed value makes recorded histories differ only in timers,
// which a replay does not compare.
const (
	linger        = time.Minute      // an idle workflow waits for more before it completes
	presentWait   = 15 * time.Second // for the home of an owner that is alive
	presentTries  = 4                // of work whose owner is alive and has no home, before it is evicted: presentWait in all
	homeWait      = 2 * time.Minute  // for a home that has what the work needs; doubled up to the limit
	homeWaitLimit = 10 * time.Minute
	backOff       = time.Second // after a failed activity; doubled up to the limit
	backOffLimit  = 30 * time.Second
	fullWait      = 5 * time.Second // for a slot; doubled up to the limit
	fullWaitLimit = time.Minute
	permanentWait = time.Hour      // after an error that the same work meets again
	termLimit     = 24 * time.Hour // no activity takes longer: one with more work is continued
	eventsLimit   = 2000           // of one run of a workflow
)

// permanentType is the type of an activity's error that the next try would meet again.
const permanentType = "permanent"

// options returns the options of the next activity.
func (p *placement) options(ctx workflow.Context, heartbeat time.Duration) workflow.ActivityOptions {
	n := names{workflow.GetInfo(ctx).TaskQueueName}
	o := workflow.ActivityOptions{
		TaskQueue:           n.queue(p.Queue),
		HeartbeatTimeout:    heartbeat,
		StartToCloseTimeout: termLimit,
		WaitForCancellation: true,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1}, // each try has a grant of its own
	}
	if p.Home == "" || p.Evict || p.HomeGone {
		return o
	}
	o.TaskQueue = n.home(p.Home)
	if o.ScheduleToStartTimeout = presentWait; !p.Present {
		o.ScheduleToStartTimeout = doubled(homeWait, p.Absent, homeWaitLimit)
	}
	return o
}

// next counts a grant and returns the input of the next activity.
func (p *placement) next(id string) workInput {
	p.Grant++
	return workInput{ID: id, Grant: p.Grant, Evict: p.Evict, HomeGone: p.HomeGone}
}

// heard notes what a signal says.
func (p *placement) heard(w wake) {
	p.Grant = max(p.Grant, w.Grant)
	p.Queue = w.Queue
	if w.Home != "" && p.Home == "" {
		p.Home, p.Present = w.Home, false
	}
}

// returned notes the result of an activity. It reports whether the work was taken: if not, it is to
// be placed again, after wait.
func (p *placement) returned(r workResult) (taken bool, wait time.Duration) {
	p.Grant = max(p.Grant, r.Grant)
	evicted := p.Evict || p.HomeGone
	p.Evict, p.HomeGone = false, false
	switch {
	case r.Home != "":
		p.Home, p.Present = r.Home, r.Present
		if evicted { // even so it has to continue there: nobody there answers, and this is not news
			p.Failures++
			return false, doubled(backOff, p.Failures-1, backOffLimit)
		}
		return false, 0
	case r.Present: // its owner is alive, and has no home where the work could continue
		p.Failures++
		p.Evict = p.Failures >= presentTries
		return false, doubled(backOff, p.Failures-1, presentWait)
	case r.Lost: // another process has a higher grant, which the result names
		p.Failures++
		return false, doubled(backOff, p.Failures-1, backOffLimit)
	case r.Moved:
		return false, 0
	}
	p.Home, p.Present, p.Absent, p.Failures = "", false, 0, 0
	return true, 0
}

// failed notes the error of an activity and returns how long to wait before the next one.
func (p *placement) failed(err error) time.Duration {
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		if timeout.TimeoutType() != enums.TIMEOUT_TYPE_SCHEDULE_TO_START {
			p.Evict, p.HomeGone = false, false
			return 0 // its process is gone: the work moves
		}
		p.Evict, p.HomeGone = p.Present, !p.Present
		p.Absent++
		return 0
	}
	var failure *temporal.ApplicationError
	if errors.As(err, &failure) && failure.Type() == permanentType {
		return permanentWait
	}
	p.Failures++
	return doubled(backOff, p.Failures-1, backOffLimit)
}

// doubled returns first, doubled times times, but at most limit.
func doubled(first time.Duration, times int, limit time.Duration) time.Duration {
	d := first
	for range times {
		if d *= 2; d >= limit {
			return limit
		}
	}
	return d
}
