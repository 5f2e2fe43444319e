package dispatch

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// Dispatcher runs the tool calls of an agent loop. The loop starts each call, waits for its turn
// until WaitTurn has nothing more, and between model calls takes the pending results of background
// work. Implementations are safe for concurrent use.
type Dispatcher interface {
	// Start begins a call, or continues one that waited for an approval. ctx belongs to the turn:
	// if it ends before the call has detached, the call is canceled. The tool can read the values
	// of ctx.
	//
	// The errors are:
	//
	//   - Invalid: the launch has no tool or no call id, or the new arguments of its approval are
	//     not JSON.
	//   - Conflict: the task already exists, or its approval is closed or used, or an earlier
	//     process requested that approval and LoopConfig.ClaimApproval is nil.
	//   - Limit: there is no slot, and the queue is full.
	//   - Unavailable: the dispatcher is shut down.
	//   - Any error of the Journal or of ClaimApproval.
	//
	// After an error nothing runs, and an approval that was open is still open.
	Start(ctx context.Context, l Launch) (StartResult, error)
	// WaitTurn returns the next update of a turn, in the order in which they happened. It returns
	// false if there is no update and none will come, or if ctx has ended. An update that is
	// already there is returned even if ctx has ended.
	WaitTurn(ctx context.Context, turn perdure.TurnID) (Update, bool)
	// TakePending removes and returns the results of background work that are to be delivered to
	// the loop of a session, in the order in which the work ended. An empty session takes those of
	// all sessions.
	TakePending(session perdure.SessionID) []Resolution
	// InterruptTurn cancels the foreground calls of a turn and closes its open approvals. It does
	// not wait: WaitTurn reports the end of each. Ended calls and background work are not affected.
	InterruptTurn(turn perdure.TurnID)
	// Handle returns what a host can do with the tasks.
	Handle() Handle
}

// Execute executes one call. approved is the decision of a person that allowed the call, and nil if
// none was needed. call.Args are then the approved arguments, or the ones that the person replaced
// them with (Approval.NewArgs). The dispatcher has compared the approval with task, call, tool and
// arguments. A call can need more permissions than when the approval was requested, for instance
// after a restart or with new arguments. Execute has to compare them with approved.Permissions
// ([perdure.Permission.StoredIn]), and may request another approval.
//
// An unknown tool and invalid arguments are results, too, with Refused set. A panic becomes an
// internal error. Execute is called by many goroutines at once, and must end when its ctx ends.
type Execute func(ctx context.Context, call tool.Call, approved *perdure.Approval) Outcome

// Outcome is the outcome of an execution.
type Outcome struct {
	Result tool.Result
	// Approval is set if the tool was not entered because an approval is needed. Result is then
	// ignored.
	Approval *perdure.Approval
	// Args, with Approval, are the arguments to approve and to continue with. nil: those of the
	// call.
	Args json.RawMessage
}

// Launch is a call to run.
type Launch struct {
	// Task is the id of the task. Empty: a new one. For a relaunch after an approval it is
	// required.
	Task perdure.TaskID
	// Call needs Session, Turn, ID, Tool and Args; the dispatcher fills in the rest. For a relaunch
	// it may be zero.
	Call     tool.Call
	Approval *perdure.Approval // nil: a first launch. Set: a person's decision, of any kind
	Spawned  bool              // the model asked for background execution
	Delivery perdure.Delivery  // empty: perdure.ToLoop, or for a relaunch as before
	Wake     perdure.Wake      // empty: depends on the route, or for a relaunch as before
	Metadata map[string]string // of the request; returned with each snapshot of the task
}

// StartResult is the outcome of a start.
type StartResult struct {
	Ready       *Resolution // set: the call has ended or needs an approval
	Task        perdure.TaskID
	Lane        perdure.Lane        // empty: it has ended
	Placeholder *perdure.ToolResult // set if the call starts in the background: its one result for the model
}

// Resolution says how a call ended, or that it needs an approval. One of Item and Asked is set.
type Resolution struct {
	Task     perdure.TaskID
	Item     *Item
	Approval *PendingApproval
}

// Item is the full result of a call, after success or failure.
type Item struct {
	Task     perdure.TaskID
	Call     perdure.CallID
	Tool     string
	State    perdure.TaskState
	Result   perdure.ToolResult
	Metadata map[string]string // of the request
}

// PendingApproval is a call that waits for an approval. A launch that names Task and holds the
// decision continues the call or denies it, once. Another process that reads an Asked from JSON
// must also set Call in that launch, because it does not know the call.
type PendingApproval struct {
	Task     perdure.TaskID
	Call     tool.Call
	Approval perdure.Approval // Approval.Task is Task
}

// Update is an event in a turn. One of its fields is set.
type Update struct {
	Resolution *Resolution
	Detached   *DetachedCall
}

// DetachedCall is a call that has detached from its turn.
type DetachedCall struct {
	Snapshot
	Placeholder perdure.ToolResult // the call's one result for the model
}

// Snapshot is the state of a task at one moment. Its metadata is shared and must not be changed.
type Snapshot struct {
	Task     perdure.TaskID
	Session  perdure.SessionID
	Turn     perdure.TurnID
	Call     perdure.CallID
	Tool     string
	Lane     perdure.Lane
	State    perdure.TaskState
	Delivery perdure.Delivery
	Wake     perdure.Wake
	Metadata map[string]string // of the request
}

// The default sizes of a dispatcher's memory.
const (
	DefaultMaxEnded  = 1000 // tasks that have ended
	DefaultMaxEvents = 1000 // events
)

// LoopConfig says how the calls of a loop are run. Only Execute is required.
type LoopConfig struct {
	Execute Execute
	Spec    func(tool string) tool.Spec // soft budget, deadline, stall timeout and class of a tool; nil: the zero Spec
	// Deadline limits one execution of a call; nil or 0: the limit of the Spec.
	Deadline func(tool.Call) time.Duration
	Route    func(tool.Call) Route // the host's routing policy; nil: none
	// Kill stops a call that does not react to its context; the argument says whether by force.
	// nil: calls have only their context.
	Kill  func(tool.Call, bool)
	NewID func() perdure.TaskID // nil: time-ordered and random
	// ClaimApproval durably claims the approval that a call is about to run with, so that it is
	// valid once in all processes. It must return perdure.Conflict if the id was claimed before.
	// After any error nothing runs. Many goroutines call it at once, after Journal.Begin. nil: an
	// approval is only valid in the process that requested it, which remembers whether it was used.
	ClaimApproval func(ctx context.Context, a perdure.Approval) error
	Journal       Journal // nil: nothing outlives the process
	// Offers reports whether the model has a tool of this name, so that placeholders mention no
	// others. nil: none. Many goroutines call it at once.
	Offers func(tool string) bool
	Caps   Caps
	// MaxEnded is the number of ended tasks that can still be looked up, and of open approvals that
	// an Inline remembers. The newest are kept. 0: DefaultMaxEnded.
	MaxEnded int
	// MaxEvents is the number of events that a subscriber can go back. 0: DefaultMaxEvents.
	MaxEvents int
	Runner    Config // how work is stopped
}

// withDefaults fills in the defaults. It is Invalid if Execute is nil or the overflow policy is
// unknown.
func (c LoopConfig) withDefaults() (LoopConfig, error) {
	if c.Execute == nil {
		return c, fmt.Errorf("dispatch: %w: LoopConfig.Execute is nil; set it to the function that executes a call",
			perdure.Invalid)
	}
	if c.Spec == nil {
		c.Spec = func(string) tool.Spec { return tool.Spec{} }
	}
	if c.Route == nil {
		c.Route = func(tool.Call) Route { return Route{} }
	}
	if c.NewID == nil {
		c.NewID = newID[perdure.TaskID]
	}
	if c.MaxEnded <= 0 {
		c.MaxEnded = DefaultMaxEnded
	}
	if c.MaxEvents <= 0 {
		c.MaxEvents = DefaultMaxEvents
	}
	if c.Offers == nil {
		c.Offers = func(string) bool { return false }
	}
	var err error
	c.Caps, err = c.Caps.withDefaults()
	return c, err
}

// deadlineOf returns the limit of one execution of a call.
func (c LoopConfig) deadlineOf(call tool.Call, spec tool.Spec) time.Duration {
	if c.Deadline != nil {
		if limit := c.Deadline(call); limit > 0 {
			return limit
		}
	}
	return spec.HardDeadline()
}

// newID returns a new UUIDv7.
func newID[T perdure.ID]() T {
	var id [16]byte
	_, _ = rand.Read(id[:]) // noTime fails
	ms := time.Now().UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return perdure.FormatID[T](id)
}

// checkCall checks what every launch needs.
func checkCall(call tool.Call) error {
	if call.Tool == "" || call.ID == "" {
		return fmt.Errorf("start: %w: a launch needs a tool and a call id, got %q and %q", perdure.Invalid, call.Tool, call.ID)
	}
	return nil
}

// TaskNotFound is the error for a task that does not exist or belongs to another session. errors.Is
// matches perdure.NotFound.
type TaskNotFound struct{ Task perdure.TaskID }

// Error returns "task not found: ID".
func (e *TaskNotFound) Error() string { return "task not found: " + string(e.Task) }

// Is reports whether target is perdure.NotFound.
func (e *TaskNotFound) Is(target error) bool { return target == perdure.NotFound }
