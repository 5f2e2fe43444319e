package remote

import (
	"context"
	"math/rand/v2"
	"time"
)

// The pauses before another try.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

// away is a failure after which the same may be tried again.
type away struct {
	err   error
	after time.Duration // the server asked for this much time; 0: it did not
	busy  bool          // the server is there, and at work on this very request
}

func (a *away) Error() string { return a.err.Error() }
func (a *away) Unwrap() error { return a.err }

// patience is how long one caller goes on trying. It belongs to one goroutine.
type patience struct {
	retry  time.Duration // until the server was met
	outage time.Duration // after that; negative: no limit
	pause  time.Duration // the next one, before chance shortens it
	since  time.Time     // of the first failure in a row; zero: none
	met    bool
}

func (e *Engine) patience(outage time.Duration) *patience {
	return &patience{retry: e.cfg.Retry, outage: outage, pause: firstPause}
}

// meet notes an answer. The pauses go on growing, since a server may also fall right after each answer.
func (p *patience) meet() { p.since, p.met = time.Time{}, true }

// progress lets the pauses begin again.
func (p *patience) progress() { p.pause = firstPause }

// wait pauses before the next try. It returns what failed when there is no time left for one, and ctx's cause
// when ctx ends.
func (p *patience) wait(ctx context.Context, failure *away) error {
	now := time.Now()
	if p.since.IsZero() || failure.busy {
		p.since = now
	}
	limit := p.retry
	if p.met {
		limit = p.outage
	}
	pause := max(p.pause/2+rand.N(p.pause/2+1), failure.after)
	p.pause = min(2*p.pause, lastPause)
	if left := p.since.Add(limit).Sub(now); limit >= 0 || !p.met {
		if left <= 0 || failure.after > left {
			return failure.err
		}
		pause = min(pause, left)
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
