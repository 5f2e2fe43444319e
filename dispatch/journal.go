package dispatch

import (
	"context"
	"time"

	"github.com/perdure/perdure"
)

// Journal makes the decisions of an Async durable. Each method is called before anything is
// published; when it returns nil, the decision counts. Methods may be called at once for different
// tasks, and for one task while another call for it is still running. Calls that come after Ended
// with an Item must have no effect.
type Journal interface {
	// Begin records a call that is about to start, or to continue after an approval. On an error it
	// does not start.
	Begin(ctx context.Context, s Snapshot, l Launch) error
	// Detached records that a call has detached, and its placeholder. On an error it stays in the
	// foreground and tries again a second later.
	Detached(ctx context.Context, d DetachedCall) error
	// Canceling records the request to cancel. On an error nothing is canceled.
	Canceling(ctx context.Context, s Snapshot, w CancelRequest) error
	// Ended records a resolution: the end of a task, or that it needs an approval. It is called
	// again every second until it succeeds or the dispatcher shuts down; then the task stays as it
	// is.
	Ended(ctx context.Context, s Snapshot, r Resolution) error
}

// CancelRequest is a request to cancel a task.
type CancelRequest struct{ By, Why string }

// The time limit of one call of the journal, and the wait before it is called again.
const (
	journalTimeout = 10 * time.Second
	journalRetry   = time.Second
)

// noJournal records nothing.
type noJournal struct{}

func (noJournal) Begin(context.Context, Snapshot, Launch) error            { return nil }
func (noJournal) Detached(context.Context, DetachedCall) error             { return nil }
func (noJournal) Canceling(context.Context, Snapshot, CancelRequest) error { return nil }
func (noJournal) Ended(context.Context, Snapshot, Resolution) error        { return nil }

// record calls the journal until it has recorded the end of a task. It returns false if the
// dispatcher was shut down first.
func (a *Async) record(s Snapshot, r Resolution) bool {
	for {
		if a.recordOnce(s, r) {
			return true
		}
		retry := time.NewTimer(journalRetry)
		select {
		case <-retry.C:
		case <-a.runner.Done():
			retry.Stop()
			return false
		}
	}
}

func (a *Async) recordOnce(s Snapshot, r Resolution) bool {
	ctx, cancel := context.WithTimeout(context.Background(), journalTimeout)
	defer cancel()
	err := a.cfg.Journal.Ended(ctx, s, r)
	if err != nil {
		a.log.Warn("task end not recorded, trying again", "task", s.Task, "session", s.Session, "error", err)
	}
	return err == nil
}

// newItem returns the resolution that ends a task.
func newItem(s Snapshot, result perdure.ToolResult) Resolution {
	return Resolution{Task: s.Task, Item: &Item{Task: s.Task, Call: s.Call, Tool: s.Tool, State: s.State, Result: result, Metadata: s.Metadata}}
}
