package temporal

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

// notifyAgain is the time after which Temporal is notified again of a run that is still queued.
// Each run that is queued, and each free slot, has all runs listed that wait, and Temporal needs
// some time to give them out.
const notifyAgain = time.Second

// runNotifier notifies Temporal of queued runs, several at once. It is safe for concurrent use.
type runNotifier struct {
	start func(ctx context.Context, w WaitingRun) error
	now   func() time.Time

	mu   sync.Mutex
	runs map[notice]time.Time // guarded by mu; when Temporal was notified of them
}

// all notifies Temporal of those runs of which it was not notified just now. An error of one does
// not keep it from the others, and the next call sends that notification again.
func (t *runNotifier) all(ctx context.Context, runs []WaitingRun) error {
	var group sync.WaitGroup
	places := make(chan struct{}, wakers)
	var mu sync.Mutex // guards failed
	var failed error
	for _, w := range t.fresh(runs) {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			if err := t.start(ctx, w); err != nil {
				t.forget(w)
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return failed
}

// fresh returns the runs of which Temporal was not notified just now, and notes that it is.
func (t *runNotifier) fresh(runs []WaitingRun) (fresh []WaitingRun) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for n, at := range t.runs {
		if now.Sub(at) >= notifyAgain {
			delete(t.runs, n)
		}
	}
	for _, w := range runs {
		n := notice{task: w.ID, grant: w.Grant}
		if _, known := t.runs[n]; !known {
			t.runs[n] = now
			fresh = append(fresh, w)
		}
	}
	return fresh
}

func (t *runNotifier) forget(w WaitingRun) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.runs, notice{task: w.ID, grant: w.Grant})
}

// newRunNotifier returns a notifier that has notified Temporal of nothing.
func newRunNotifier(s starter) *runNotifier {
	return &runNotifier{start: s.run, now: time.Now, runs: map[notice]time.Time{}}
}

// runsOf lists the queued runs of a session, or of all, and notifies Temporal of them.
func (t *runNotifier) runsOf(ctx context.Context, host Host, id perdure.SessionID) error {
	runs, err := host.DueRuns(ctx, id)
	return absent(errors.Join(err, t.all(ctx, runs)))
}
