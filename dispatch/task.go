package dispatch

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// task is the record of one call from its launch to its end. All but the first group is guarded by the Async's mu.
type task struct {
	id       perdure.TaskID
	number   int64 // in the order of their making
	metadata map[string]string
	call     tool.Call // its arguments are replaced only while nothing runs
	spec     tool.Spec

	state    perdure.TaskState
	lane     perdure.Lane
	since    int64   // when it came to the background, in the order of number; 0: it did not
	routing  Routing // of the first launch
	next     Routing // of the launch in work, or the last
	delivery perdure.Delivery
	wake     perdure.Wake

	begins      bool              // a start is asking the journal
	announced   bool              // Started was published
	interrupted bool              // its turn was, while it was in the foreground
	forgotten   bool              // nobody wants its result (Handle.Forget)
	leaving     bool              // its Detach is being decided
	stays       string            // why it could not leave the foreground when it was asked last, as it was told
	wasAsked    bool              // of a person, at some time
	settling    bool              // its end is decided and perhaps not recorded yet
	approval    *perdure.Approval // open, or the answer that it goes on with
	outcome     *Outcome          // set: its execution asked for an approval
	canceled    *perdure.CancelReceipt
	result      *perdure.ToolResult // terminal only

	run      string          // the id of its execution in the runner
	runs     int             // executions begun; one that asks a person counts
	begun    time.Time       // the execution
	deadline time.Time       // likewise
	values   context.Context // of the caller: values only
	unlink   func() bool     // from the caller's context (LN9)
}

// snapshot is the task as it stands. mu is held.
func (t *task) snapshot() Snapshot {
	return Snapshot{
		Task: t.id, Session: t.call.Session, Turn: t.call.Turn, Call: t.call.ID, Tool: t.call.Tool, Lane: t.lane, State: t.state,
		Delivery: t.delivery, Wake: t.wake, Metadata: t.metadata,
	}
}

// item is the task with its result, if it has one. mu is held.
func (t *task) item() Item {
	i := Item{Task: t.id, Call: t.call.ID, Tool: t.call.Tool, State: t.state, Metadata: t.metadata}
	if t.result != nil {
		i.Result = *t.result
	}
	return i
}

// question is what a person was asked, or is said to have been. mu is held.
func (t *task) question() Asked {
	q := Asked{Task: t.id, Call: t.call}
	if t.state == perdure.TaskAwaitingInput && t.approval != nil {
		q.Approval = *t.approval
	}
	return q
}

// busy reports a task that is queued, running or being stopped. mu is held.
func (t *task) busy() bool {
	return t.settling && !t.state.Terminal() || t.begins || t.state == perdure.TaskQueued || t.state == perdure.TaskRunning
}

// open reports a task that waits for a person. mu is held.
func (t *task) open() bool {
	return t.state == perdure.TaskAwaitingInput && !t.settling && !t.begins
}

// set takes over what a launch says of the end. mu is held.
func (t *task) set(l Launch) {
	if l.Delivery != "" {
		t.delivery = l.Delivery
	}
	if l.Wake != "" {
		t.wake = l.Wake
	}
	if t.delivery == "" {
		t.delivery = perdure.ToLoop
	}
	if t.wake == "" {
		t.wake = t.routing.Wake
		if t.delivery == perdure.Manual {
			t.wake = perdure.WakeNone
		}
	}
}

// turn is what is known of a turn as long as it has something to wait for.
type turn struct {
	calls   []*task  // that began in it, are in the foreground and have not ended
	updates []Update // that nobody has taken yet
	changed chan struct{}
}

// busy reports whether a call of the turn is in work. It is read from the records: a count could be wrong (LN12).
func (t *turn) busy() bool {
	for _, call := range t.calls {
		if call.busy() {
			return true
		}
	}
	return false
}

// late is what came home from the background for a loop.
type late struct {
	Resolution
	session perdure.SessionID
}

// lateItem is what came home for the host.
type lateItem struct {
	Item
	session perdure.SessionID
}

// withValues is a context with the values of another one.
type withValues struct {
	context.Context
	values context.Context
}

// Value prefers the context's own: they say how it ends.
func (c withValues) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}
