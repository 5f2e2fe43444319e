package dispatch

import (
	"context"
	"time"

	"github.com/perdure/perdure"
)

// EventKind says what happened to a task (LN19).
type EventKind string

// The kinds of event. A task has exactly one of completed, failed, canceled and unknown.
const (
	EventQueued            EventKind = "queued" // it could not start at once
	EventStarted           EventKind = "started"
	EventRejected          EventKind = "rejected" // a start found no slot and was refused: nothing runs, and nothing else is told of it
	EventDetached          EventKind = "detached"
	EventDetachFailed      EventKind = "detach_failed" // a call stays in the foreground and tries again every second; told once for each reason
	EventCompleted         EventKind = "completed"
	EventFailed            EventKind = "failed"
	EventCanceled          EventKind = "canceled"
	EventUnknown           EventKind = "unknown"
	EventApprovalRequired  EventKind = "approval_required"
	EventContinueRequested EventKind = "continue_requested" // TakePending has something that wants a turn
	EventGap               EventKind = "gap"                // events before Seq are not kept any more
)

// Event is one thing that happened, in the order of Seq.
type Event struct {
	Seq      int64 // from 1, without holes; of a gap: that of the last event that is missing
	At       time.Time
	Kind     EventKind
	Task     Snapshot            // of continue_requested: the task that asks; of a gap: zero
	Result   *perdure.ToolResult // of an end: the whole result, and in it the error; of detached: the placeholder
	Approval *perdure.Approval   // of approval_required
	Why      string              // of rejected and detach_failed: what stands in the way, in words
	Missed   int64               // of a gap: how many events it stands for, of whatever session
}

// events is the log of a dispatcher. It is guarded by the dispatcher's mu.
type events struct {
	ring []Event // of the newest; seq s stands at s modulo its length
	last int64
}

// add numbers an event and keeps it in the place of the oldest.
func (l *events) add(e Event) {
	l.last++
	e.Seq, e.At = l.last, time.Now()
	l.ring[e.Seq%int64(len(l.ring))] = e
}

// after returns the first event of a session after a place, or a gap. False: there is none yet. The empty
// session has all events.
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

// Subscription reads events at its own pace: nothing is sent to it, so that a slow one holds up nobody. It is
// safe for concurrent use; then each event goes to one of the readers.
type Subscription struct {
	a       *Async // nil: there are no events
	session perdure.SessionID
	seq     int64 // guarded by a.mu: of the last event read
}

// Next returns the next event. One that reads too slowly gets an EventGap and goes on with what is kept. False: ctx
// has ended, or the dispatcher is shut down and there is no event more.
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
