package dispatch

import (
	"cmp"
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// task is the record of a call from its launch to its end. Everything below the first group is
// guarded by the Async's mu.
type task struct {
	id       perdure.TaskID
	number   int64 // order of creation
	metadata map[string]string
	call     tool.Call // its arguments change only while nothing is running
	spec     tool.Spec

	state           perdure.TaskState
	lane            perdure.Lane
	backgroundSince int64   // when it entered the background, on the scale of number; 0: it has not
	routing         Routing // of the first launch
	current         Routing // of the current or latest launch
	delivery        perdure.Delivery
	wake            perdure.Wake

	starting          bool              // a start is being recorded in the journal
	announced         bool              // EventStarted was published
	interrupted       bool              // its turn was interrupted while it was in the foreground
	forgotten         bool              // its session was removed by Handle.Forget
	detaching         bool              // its Detach is being decided
	detachError       string            // the reported reason why it could not detach
	approvalRequested bool              // an approval was requested at some time
	settling          bool              // its end is decided, but may not be recorded yet
	approval          *perdure.Approval // open, or the decision that it continues with
	outcome           *Outcome          // set: its execution requested an approval
	canceled          *perdure.CancelReceipt
	result            *perdure.ToolResult // set once it has ended

	run        string          // id of its latest execution in the runner
	executions int             // executions started, including those that requested an approval
	startedAt  time.Time       // start of the execution
	deadline   time.Time       // of the execution
	values     context.Context // of the caller; only its values are used
	stopLink   func() bool     // separates the task from the caller's context
}

// snapshot returns the present state. The caller holds mu.
func (t *task) snapshot() Snapshot {
	return Snapshot{
		Task: t.id, Session: t.call.Session, Turn: t.call.Turn, Call: t.call.ID, Tool: t.call.Tool, Lane: t.lane, State: t.state,
		Delivery: t.delivery, Wake: t.wake, Metadata: t.metadata,
	}
}

// item returns the task with its result, if it has one. The caller holds mu.
func (t *task) item() Item {
	i := Item{Task: t.id, Call: t.call.ID, Tool: t.call.Tool, State: t.state, Metadata: t.metadata}
	if t.result != nil {
		i.Result = *t.result
	}
	return i
}

// pendingApproval returns the call with its open approval, if there is one. The caller holds mu.
func (t *task) pendingApproval() PendingApproval {
	q := PendingApproval{Task: t.id, Call: t.call}
	if t.state == perdure.TaskAwaitingInput && t.approval != nil {
		q.Approval = *t.approval
	}
	return q
}

// busy reports whether the task is queued, running or being stopped. The caller holds mu.
func (t *task) busy() bool {
	return t.settling && !t.state.Terminal() || t.starting || t.state == perdure.TaskQueued || t.state == perdure.TaskRunning
}

// awaitsApproval reports whether the task waits for an approval. The caller holds mu.
func (t *task) awaitsApproval() bool {
	return t.state == perdure.TaskAwaitingInput && !t.settling && !t.starting
}

// applyLaunch applies delivery and wake of a launch, or their defaults. The caller holds mu.
func (t *task) applyLaunch(l Launch) {
	if l.Delivery != "" {
		t.delivery = l.Delivery
	}
	if l.Wake != "" {
		t.wake = l.Wake
	}
	t.delivery = cmp.Or(t.delivery, perdure.ToLoop)
	if t.wake == "" {
		t.wake = t.routing.Wake
		if t.delivery == perdure.Manual {
			t.wake = perdure.WakeNone
		}
	}
}

// turn is the state of a turn. It exists while there is something to wait for or to read.
type turn struct {
	calls   []*task  // live foreground calls
	updates []Update // not read yet
	changed chan struct{}
}

// busy reports whether a call of the turn is running or about to start. It is computed from the
// tasks, because a separate counter could get out of step with them.
func (t *turn) busy() bool {
	for _, call := range t.calls {
		if call.busy() {
			return true
		}
	}
	return false
}

// pendingResolution is a result of background work for a loop.
type pendingResolution struct {
	Resolution
	session perdure.SessionID
}

// readyItem is a result of background work for the host.
type readyItem struct {
	Item
	session perdure.SessionID
}

// withValues is a context with additional values of another one.
type withValues struct {
	context.Context
	values context.Context
}

// Value prefers the context's own values, because they say how it ends.
func (c withValues) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}
