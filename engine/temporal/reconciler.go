package temporal

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure"
)

// The bounds of the reconciler.
const (
	duePage     = 200
	signalAgain = time.Minute // what still waits is signaled again then
)

// reconciler lists what waits in the store, and starts the workflows that are missing. Work that
// waits for a free process is listed in each pass, so the reconciler remembers its signals.
type reconciler struct {
	host    Host
	starter starter
	every   time.Duration
	now     func() time.Time
	signals map[notice]time.Time // of the work that the last pass listed; when they were sent
}

// notice identifies a signal: a new event or a new grant needs another one.
type notice struct {
	session  perdure.SessionID
	task     perdure.TaskID
	seq      int64
	grant    int64
	orphaned bool
}

// pass makes one pass over everything that waits. An error of one item does not keep it from the
// others.
func (r *reconciler) pass(ctx context.Context) (time.Duration, error) {
	seen := map[notice]time.Time{}
	var failed error
	send := func(s notice, start func() error) {
		at, known := r.signals[s]
		if !known || r.now().Sub(at) >= signalAgain {
			if err := start(); err != nil {
				failed = errors.Join(failed, err)
				return
			}
			at = r.now()
		}
		seen[s] = at
	}
	for after := ""; ; {
		page, err := r.host.Due(ctx, after, duePage)
		if err != nil {
			return r.every, errors.Join(failed, err) // the signals stay as they were, because the list is not complete
		}
		for _, w := range page.Sessions {
			send(notice{session: w.ID, seq: w.Seq, grant: w.Grant, orphaned: w.Orphaned}, func() error { return r.starter.session(ctx, w) })
		}
		for _, w := range page.Runs {
			send(notice{task: w.ID, grant: w.Grant}, func() error { return r.starter.run(ctx, w) })
		}
		if page.Next == "" || ctx.Err() != nil {
			break
		}
		after = page.Next
	}
	r.signals = seen
	return r.every, failed
}
