package temporal

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure"
)

// The bounds of the reconciler.
const (
	duePage   = 200
	tellAgain = time.Minute // what still waits is signaled again then
)

// reconciler lists what waits in the store, and starts the workflows that are missing. Work that
// waits for a free process is listed in each pass, so the reconciler remembers what it signaled.
type reconciler struct {
	host    Host
	starter starter
	every   time.Duration
	now     func() time.Time
	told    map[told]time.Time // what the last pass listed; when it was signaled
}

// told identifies what was signaled: a new event or a new grant makes it something else.
type told struct {
	session  perdure.SessionID
	task     perdure.TaskID
	seq      int64
	grant    int64
	orphaned bool
}

// pass makes one pass over everything that waits. An error of one item does not keep it from the
// others.
func (r *reconciler) pass(ctx context.Context) (time.Duration, error) {
	seen := map[told]time.Time{}
	var failed error
	tell := func(t told, start func() error) {
		at, known := r.told[t]
		if !known || r.now().Sub(at) >= tellAgain {
			if err := start(); err != nil {
				failed = errors.Join(failed, err)
				return
			}
			at = r.now()
		}
		seen[t] = at
	}
	for after := ""; ; {
		page, err := r.host.Due(ctx, after, duePage)
		if err != nil {
			return r.every, errors.Join(failed, err) // told stays as it was: the list is not whole
		}
		for _, w := range page.Sessions {
			tell(told{session: w.ID, seq: w.Seq, grant: w.Grant, orphaned: w.Orphaned}, func() error { return r.starter.session(ctx, w) })
		}
		for _, w := range page.Runs {
			tell(told{task: w.ID, grant: w.Grant}, func() error { return r.starter.run(ctx, w) })
		}
		if page.Next == "" || ctx.Err() != nil {
			break
		}
		after = page.Next
	}
	r.told = seen
	return r.every, failed
}
