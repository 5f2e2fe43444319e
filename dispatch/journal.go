package dispatch

import (
	"context"
	"time"

	"github.com/perdure/perdure"
)

// Journal makes what an Async decides durable. Each method is called before anybody is told; when it returns nil,
// the thing has happened. Its methods may be called at once for different tasks, and for one task while another call
// for it is in work; whatever comes after Ended with an Item changes nothing.
type Journal interface {
	// Begin records a call that is about to start, or to go on after an approval. An error refuses the start.
	Begin(ctx context.Context, s Snapshot, l Launch) error
	// Detached records that a call has left the foreground, and its placeholder. After an error it stays there and
	// tries again a second later (LN7).
	Detached(ctx context.Context, d Detached) error
	// Canceling records the wish to cancel (RC1). After an error nothing is cancelled.
	Canceling(ctx context.Context, s Snapshot, w CancelWish) error
	// Ended records a resolution: the end of a task, or that it waits for a person. It is asked again, every second,
	// until it agrees or the dispatcher shuts down; then the task is left as it is (RC11).
	Ended(ctx context.Context, s Snapshot, r Resolution) error
}

// CancelWish is who asks for the end of a task, and why.
type CancelWish struct{ By, Why string }

// The bounds of one question to the journal, and of the time until the next.
const (
	journalTimeout = 10 * time.Second
	journalRetry   = time.Second
)

// noJournal forgets.
type noJournal struct{}

func (noJournal) Begin(context.Context, Snapshot, Launch) error         { return nil }
func (noJournal) Detached(context.Context, Detached) error              { return nil }
func (noJournal) Canceling(context.Context, Snapshot, CancelWish) error { return nil }
func (noJournal) Ended(context.Context, Snapshot, Resolution) error     { return nil }

// record asks the journal for the end of a task until it agrees. False: the dispatcher was shut down first.
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
		a.log.Warn("the end of a task is recorded again", "task", s.Task, "session", s.Session, "error", err)
	}
	return err == nil
}

// newItem makes the resolution that ends a task.
func newItem(s Snapshot, result perdure.ToolResult) Resolution {
	return Resolution{Task: s.Task, Item: &Item{Task: s.Task, Call: s.Call, Tool: s.Tool, State: s.State, Result: result, Metadata: s.Metadata}}
}
