package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/perdure/perdure"
)

// maxDuplicates is how often a transaction runs again because another transaction added the same
// row. It sees that row then. If it adds the row again, the fault is its own.
const maxDuplicates = 3

// rolledBack is the error of a transaction of which nothing is stored, and which may succeed when
// it runs again.
type rolledBack struct{ error }

// Unwrap returns the cause.
func (u rolledBack) Unwrap() error { return u.error }

// rolledBackBy returns the result for an error after which nothing is stored.
func rolledBackBy(err error) error {
	if isTransient(err) {
		return rolledBack{err}
	}
	return explain(err)
}

// retry holds the state of the retries of one transaction or view. One goroutine uses it.
type retry struct {
	store          *Store
	ctx            context.Context // the caller's
	duplicatesLeft int             // remaining retries after another transaction added the same row
}

// afterFailure returns the result after an error of the database in fn, which returned err. err
// stays if it wraps the failure.
func (t *retry) afterFailure(failure, err error) error {
	if state(failure) == stateUnique && t.duplicatesLeft > 0 {
		t.duplicatesLeft--
		return rolledBack{failure}
	}
	switch {
	case isTransient(failure):
		return rolledBack{failure}
	case t.ctx.Err() != nil:
		return t.ctx.Err()
	case errors.Is(err, failure):
		return err
	}
	return failure
}

// run calls once until it returns anything but undone, with growing pauses between the calls.
func (t *retry) run(once func(context.Context) error) error {
	waiting, stop := context.WithTimeout(t.ctx, t.store.cfg.RetryTimeout)
	defer stop()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := once(waiting)
		var back rolledBack
		if !errors.As(err, &back) {
			return err
		}
		if !t.store.pause(waiting, jittered(pause)) {
			return t.timedOut(back.error)
		}
	}
}

// timedOut returns the result when no time is left for another try.
func (t *retry) timedOut(err error) error {
	switch {
	case t.ctx.Err() != nil:
		return t.ctx.Err()
	case t.store.isClosing():
		return errClosed
	}
	return fmt.Errorf("%w: the transaction did not succeed for %v and nothing was changed: %w", perdure.Unavailable,
		t.store.cfg.RetryTimeout, explain(err))
}

// The pauses between tries double from the first to the last.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// jittered returns a pause of half to one and a half times d, so that callers that failed together
// do not retry together.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// pause waits, and reports whether to continue: neither ctx nor the store has ended.
func (s *Store) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil && !s.isClosing()
	case <-ctx.Done():
		return false
	case <-s.closing:
		return false
	}
}

func (s *Store) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}
