package dispatch

import (
	"context"
	"time"

	"github.com/perdure/perdure"
)

// EventKind is the kind of an event.
type EventKind string

// The kinds of event. A task has exactly one of completed, failed, canceled and unknown.
const (
	EventQueued  EventKind = "queued" // it could not start at once
	EventStarted EventKind = "started"
	// EventRejected: a start was refused because there is no slot. Nothing runs, and no other event
	// follows.
	EventRejected EventKind = "rejected"
	EventDetached EventKind = "detached"
	// EventDetachFailed: a call stays in the foreground and tries again every second. Each reason
	// is reported once.
	EventDetachFailed      EventKind = "detach_failed"
	EventCompleted         EventKind = "completed"
	EventFailed            EventKind = "failed"
	EventCanceled          EventKind = "canceled"
	EventUnknown           EventKind = "unknown"
	EventApprovalRequired  EventKind = "approval_required"
	EventContinueRequested EventKind = "continue_requested" // TakePending has a result with wake continue
	EventGap               EventKind = "gap"                // events up to Seq are no longer stored
)

// Event is something that happened to a task. Seq gives the order.
type Event struct {
	Seq      int64 // from 1, without gaps; for a gap: of the last missing event
	At       time.Time
	Kind     EventKind
	Task     Snapshot            // for continue_requested: the task with wake continue; for a gap: zero
	Result   *perdure.ToolResult // for an end: the full result, which includes an error; for detached: the placeholder
	Approval *perdure.Approval   // for approval_required
	Why      string              // for rejected and detach_failed: the reason
	Missed   int64               // for a gap: the number of missing events of all sessions
}

// events is the event log of a dispatcher, guarded by the dispatcher's mu.
type events struct {
	ring []Event // the newest events; number s is at index s modulo the length
	last int64
}

// add numbers an event and overwrites the oldest one.
func (l *events) add(e Event) {
	l.last++
	e.Seq, e.At = l.last, time.Now()
	l.ring[e.Seq%int64(len(l.ring))] = e
}

// after returns the first event of a session after seq, or a gap. It returns false if there is none
// yet. The empty session has all events.
func (l *events) after(seq int64, session perdure.SessionID) (Event, bool) {
	if oldest := max(l.last-int64(len(l.ring)), 0) + 1; seq+1 < oldest {
		return Event{Seq: oldest - 1, At: time.Now(), Kind: EventGap, Missed: oldest - 1 - seq}, true
	}
	for seq++; seq <= l.last; seq++ {
		if e := l.ring[seq%int64(len(l.ring))]; session == "" || e.Task.Session == session {
			return e, true
		}
	}
	return Event{}, false
}

// Subscription reads events at its own pace. Events are never sent to it, so a slow reader delays
// nobody. It is safe for concurrent use; each event then goes to one of the readers.
type Subscription struct {
	a       *Async // nil: there are no events
	session perdure.SessionID
	seq     int64 // guarded by a.mu: number of the last event read
}

// Next returns the next event. A reader that is too slow gets an EventGap and continues with the
// oldest stored event. It returns false if ctx has ended, or if the dispatcher is shut down and no
// event is left.
func (s *Subscription) Next(ctx context.Context) (Event, bool) {
	if s.a == nil {
		return Event{}, false
	}
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	for {
		if e, ok := s.a.events.after(s.seq, s.session); ok {
			s.seq = e.Seq
			return e, true
		}
		s.seq = s.a.events.last
		if s.a.closed || ctx.Err() != nil {
			return Event{}, false
		}
		s.a.await(ctx, &s.a.changed)
	}
}
