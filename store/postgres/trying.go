package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/perdure/perdure"
)

// maxDoubles is how often a transaction runs again because a row that it adds was added meanwhile. It sees that row then; one
// that adds it all the same is wrong, and not late.
const maxDoubles = 3

// undone is the error of a transaction of which nothing is stored, and which may succeed when it runs again.
type undone struct{ error }

// Unwrap returns the cause.
func (u undone) Unwrap() error { return u.error }

// undoneBy is the answer to an error after which nothing is stored.
func undoneBy(err error) error {
	if passes(err) {
		return undone{err}
	}
	return explain(err)
}

// trying is how often and how long something is tried. It is used by one goroutine.
type trying struct {
	store   *Store
	ctx     context.Context // the caller's
	doubles int             // how often it may still run again because of a row that was added meanwhile
}

// spoiled is the answer after an error of the database in fn, which returned err. Its own words stay where they hold the
// error.
func (t *trying) spoiled(failure, err error) error {
	if state(failure) == stateUnique && t.doubles > 0 {
		t.doubles--
		return undone{failure}
	}
	switch {
	case passes(failure):
		return undone{failure}
	case t.ctx.Err() != nil:
		return t.ctx.Err()
	case errors.Is(err, failure):
		return err
	}
	return failure
}

// run calls once until it answers something else than undone, with growing pauses between.
func (t *trying) run(once func(context.Context) error) error {
	waiting, stop := context.WithTimeout(t.ctx, t.store.cfg.Patience)
	defer stop()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := once(waiting)
		var back undone
		if !errors.As(err, &back) {
			return err
		}
		if !t.store.rest(waiting, jittered(pause)) {
			return t.gaveUp(back.error)
		}
	}
}

// gaveUp is the answer when there is no time to try again.
func (t *trying) gaveUp(err error) error {
	switch {
	case t.ctx.Err() != nil:
		return t.ctx.Err()
	case t.store.isClosing():
		return errClosed
	}
	return fmt.Errorf("%w: nothing was changed; the database did not let it through for %v: %w", perdure.Unavailable, t.store.cfg.Patience, explain(err))
}

// The pauses between tries double from the first to the last.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// jittered is a pause of half to one and a half times d, so that those who were turned away together do not come back together.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// rest waits, and reports whether there is reason to go on: neither ctx nor the store has ended.
func (s *Store) rest(ctx context.Context, d time.Duration) bool {
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
