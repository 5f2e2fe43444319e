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

	mu      sync.Mutex
	runs    map[notice]time.Time // guarded by mu; when Temporal was notified of them
	planned map[topic]bool       // guarded by mu; what is looked at again soon
}

// all notifies Temporal of runs. An error of one does not keep it from the others, and the next
// look sends that notification again.
func (n *runNotifier) all(ctx context.Context, runs []WaitingRun) error {
	var group sync.WaitGroup
	places := make(chan struct{}, wakers)
	var mu sync.Mutex // guards failed
	var failed error
	for _, w := range runs {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			if err := n.start(ctx, w); err != nil {
				n.forget(w)
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
func (n *runNotifier) fresh(runs []WaitingRun) (fresh []WaitingRun) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	for sent, at := range n.runs {
		if now.Sub(at) >= notifyAgain {
			delete(n.runs, sent)
		}
	}
	for _, w := range runs {
		about := notice{task: w.ID, grant: w.Grant}
		if _, known := n.runs[about]; !known {
			n.runs[about] = now
			fresh = append(fresh, w)
		}
	}
	return fresh
}

func (n *runNotifier) forget(w WaitingRun) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.runs, notice{task: w.ID, grant: w.Grant})
}

// newRunNotifier returns a notifier that has notified Temporal of nothing.
func newRunNotifier(s starter) *runNotifier {
	return &runNotifier{start: s.run, runs: map[notice]time.Time{}, planned: map[topic]bool{}}
}

// look lists the queued runs of a session, or of all, and notifies Temporal of them. If it leaves
// one out, again is called with the topic once notifyAgain has passed: the run may have been
// answered after the notification was followed.
func (n *runNotifier) look(
	ctx context.Context, t topic, due func(context.Context, perdure.SessionID) ([]WaitingRun, error), again func(topic),
) error {
	runs, err := due(ctx, t.session)
	fresh := n.fresh(runs)
	if len(fresh) < len(runs) {
		n.plan(t, again)
	}
	return absent(errors.Join(err, n.all(ctx, fresh)))
}

// plan calls again with a topic after notifyAgain, unless that is planned already.
func (n *runNotifier) plan(t topic, again func(topic)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.planned[t] {
		return
	}
	n.planned[t] = true
	time.AfterFunc(notifyAgain, func() {
		n.mu.Lock()
		delete(n.planned, t)
		n.mu.Unlock()
		again(t)
	})
}
