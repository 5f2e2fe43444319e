package remote

import (
	"context"
	"math/rand/v2"
	"time"
)

// The limits of the pause before a retry.
const (
	minPause = 50 * time.Millisecond
	maxPause = 2 * time.Second
)

// retryableError is a failure after which the request may be retried.
type retryableError struct {
	err        error
	retryAfter time.Duration // requested by the server; 0: none
	busy       bool          // the server is reachable, and still works on this request
}

func (a *retryableError) Error() string { return a.err.Error() }
func (a *retryableError) Unwrap() error { return a.err }

// retryBudget is the retry budget of one caller. It belongs to one goroutine.
type retryBudget struct {
	retry   time.Duration // until the first response
	outage  time.Duration // after it; negative: no limit
	pause   time.Duration // the next pause, before jitter
	since   time.Time     // the first failure in a row; zero: none
	reached bool          // the server has responded
	waiting func(error)   // receives once what the caller waits for; nil: no receiver, or it was called
}

// patience is how long a caller retries before it says that it waits.
const patience = 5 * time.Second

func (e *Engine) retryBudget(outage time.Duration) *retryBudget {
	p := &retryBudget{retry: e.cfg.Retry, outage: outage, pause: minPause}
	if e.cfg.Waiting != nil {
		p.waiting = func(failure error) { e.cfg.Waiting(e.shownURL(), failure) }
	}
	return p
}

// noteResponse records a response. It does not reset the pause, because a server may also crash
// right after each response.
func (p *retryBudget) noteResponse() { p.since, p.reached = time.Time{}, true }

// resetPause resets the pause.
func (p *retryBudget) resetPause() { p.pause = minPause }

// wait pauses before the next attempt. If no time is left for one, it returns the failure; if ctx
// ends, the cause of ctx.
func (p *retryBudget) wait(ctx context.Context, failure *retryableError) error {
	now := time.Now()
	if p.since.IsZero() || failure.busy {
		p.since = now
	}
	limit := p.retry
	if p.reached {
		limit = p.outage
	}
	pause := max(p.pause/2+rand.N(p.pause/2+1), failure.retryAfter)
	p.pause = min(2*p.pause, maxPause)
	if left := p.since.Add(limit).Sub(now); limit >= 0 || !p.reached {
		if left <= 0 || failure.retryAfter > left {
			return failure.err
		}
		pause = min(pause, left)
	}
	if p.waiting != nil && now.Sub(p.since)+pause > patience {
		p.waiting(innermost(failure.err))
		p.waiting = nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
