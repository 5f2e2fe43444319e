package core

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// ActorRuntime is the actor of cancels that the runtime makes by itself.
const ActorRuntime = "runtime"

// RefusedWrite reports an error after which nothing can have been committed.
func RefusedWrite(err error) bool {
	return errors.Is(err, perdure.NotFound) || errors.Is(err, perdure.Conflict) || errors.Is(err, perdure.Invalid)
}

// IsFinal reports an error that a retry cannot fix.
func IsFinal(err error) bool {
	return store.Broken(err) || errors.Is(err, perdure.NotFound) || errors.Is(err, perdure.Lost)
}

// SettleContext returns a context for the writes that record the end of work. It outlives the
// cancel that ended the work, and ends after 30 seconds.
func SettleContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
}

// Wait waits for d. It reports false if ctx ended first.
func Wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ReadBack reads until the store answers. A caller that does not know whether its commit is stored
// can neither continue nor give up. It stops trying when the engine stops; the next start then
// finds out.
func (c *Core) ReadBack(ctx context.Context, read func(store.Reader) error) error {
	for attempt := 1; ; attempt++ {
		err := c.Store.View(context.WithoutCancel(ctx), read)
		if err == nil || errors.Is(err, perdure.NotFound) || store.Broken(err) {
			return err
		}
		if c.Stopping() {
			return err
		}
		select {
		case <-time.After(perdure.RetryDelay(min(attempt, 3), 0, "read back") / 20):
		case <-c.Runner.Done():
			return err
		}
	}
}

// SessionRow reads the row of a session.
func (c *Core) SessionRow(ctx context.Context, id perdure.SessionID) (row store.Session, err error) {
	err = c.Store.View(ctx, func(r store.Reader) error {
		row, err = r.Sessions().Get(id)
		return err
	})
	return row, err
}
