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

// Dispatcher runs the tool calls of an agent loop (6.2). The loop starts each call, waits for its turn until there is
// nothing more to wait for, and between model calls takes what came home from the background. Implementations are
// safe for concurrent use.
type Dispatcher interface {
	// Start begins a call, or goes on with one that was asked about. ctx is the turn's: when it ends, the call is
	// cancelled unless it has left the foreground by then (LN18). Its values reach the tool.
	//
	// Invalid: the launch names no tool or call, or the new arguments of its approval are no JSON. Conflict: the task exists
	// already, or its approval is closed, was used, or is one that an earlier process asked for while LoopConfig.UseApproval is
	// nil. Limit: no slot, and no room in the queue. Unavailable: shut down. Other errors are those of the Journal and of
	// UseApproval. After an error nothing runs, and a question that was open still is.
	Start(ctx context.Context, l Launch) (StartOutcome, error)
	// WaitTurn returns the next update of a turn, in the order in which they happened. False: none is there and
	// none is to come, or ctx has ended. An update that is there wins over the end of ctx (LN12).
	WaitTurn(ctx context.Context, turn perdure.TurnID) (Update, bool)
	// TakePending takes what came home from the background for the loop of a session, in the order in which it
	// ended (LN13). An empty session takes everybody's.
	TakePending(session perdure.SessionID) []Resolution
	// InterruptTurn cancels the foreground calls of a turn and closes its open approvals (RC8). It does not wait:
	// WaitTurn tells of each. What has ended stays as it is, and background work goes on.
	InterruptTurn(turn perdure.TurnID)
	// Handle is what a host may do.
	Handle() Handle
}

// Execute carries out one call. approved is the answer of a person who let the call through, and nil otherwise; call.Args are
// then what was approved, or what that person replaced it with (Approval.NewArgs). The dispatcher has compared the answer with
// the task, the call, the tool and the arguments. What may need more permissions than it did when it asked, for instance after a
// restart or with new arguments, compares them with approved.Permissions ([perdure.Permission.In]), and may ask again.
//
// An unknown tool and arguments that do not fit are its results too, with Refused set. A panic becomes an internal error. It is
// called by many goroutines at once, and ends with its ctx.
type Execute func(ctx context.Context, call tool.Call, approved *perdure.Approval) Outcome

// Outcome is what came of an execution.
type Outcome struct {
	Result   tool.Result
	Approval *perdure.Approval // set: the tool was not entered, a person is to be asked first; Result does not count
	Args     json.RawMessage   // with Approval: the arguments that the person is asked about and the call goes on with; nil: those of the call
}

// Launch is a call to be run (LN10).
type Launch struct {
	Task     perdure.TaskID    // kept if given; empty: a new one. Of an approved relaunch: the task that was asked about
	Call     tool.Call         // Session, Turn, ID, Tool and Args; the dispatcher fills in the rest. Of a relaunch it may be zero
	Approval *perdure.Approval // nil: plain. Set: the answer of a person, whatever it is
	Spawned  bool              // the model asked for the background
	Delivery perdure.Delivery  // empty: perdure.ToLoop, and of a relaunch: as before
	Wake     perdure.Wake      // empty: by DL6, and of a relaunch: as before
	Metadata map[string]string // of the request; it comes back with the task's snapshot
}

// StartOutcome is what a start led to.
type StartOutcome struct {
	Ready       *Resolution         // set: the call has ended, and nothing is to be waited for
	Task        perdure.TaskID      //
	Lane        perdure.Lane        // empty: it has ended
	Placeholder *perdure.ToolResult // set for a call that begins in the background: its one result for the model (LN6)
}

// Resolution is how a call ended, or that a person is to be asked (LN11). One of Item and Asked is set.
type Resolution struct {
	Task  perdure.TaskID
	Item  *Item
	Asked *Asked
}

// Item is the whole result of a call, success or failure.
type Item struct {
	Task     perdure.TaskID
	Call     perdure.CallID
	Tool     string
	State    perdure.TaskState
	Result   perdure.ToolResult
	Metadata map[string]string // of the request
}

// Asked is a call that waits for a person. It goes on, or is denied, with a launch that names Task and holds the answer, once.
// Written down as JSON and read back by another process, it is launched with Call too, since nothing else knows it there.
type Asked struct {
	Task     perdure.TaskID
	Call     tool.Call
	Approval perdure.Approval // Approval.Task is Task
}

// Update is something that happened in a turn. One of its fields is set.
type Update struct {
	Resolution *Resolution
	Detached   *Detached
}

// Detached is a call that has left the foreground.
type Detached struct {
	Snapshot
	Placeholder perdure.ToolResult // the call's one result for the model (LN6)
}

// Snapshot is a task as it stood at a moment. Its metadata is shared: do not change it.
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

// The bounds of what a dispatcher remembers.
const (
	DefaultKeep   = 1000 // tasks that have ended
	DefaultReplay = 1000 // events
)

// LoopConfig says how a loop's calls are run. Only Execute is needed.
type LoopConfig struct {
	Execute Execute
	Spec    func(tool string) tool.Spec // a tool's clocks and class; nil: those of the zero Spec
	// Deadline is how long one execution of a call may last; nil, and 0: as the Spec says.
	Deadline func(tool.Call) time.Duration
	Route    func(tool.Call) Route // the host's policy; nil: unset
	Kill     func(tool.Call, bool) // stops a call by more than its context, by force if told so (RC4); nil: no call has more
	NewID    func() perdure.TaskID // nil: time-ordered and random
	// UseApproval claims the approval that a call is about to run with, durably, so that it counts once in all processes. It
	// answers perdure.Conflict where the id was claimed before; after any error nothing runs. It is called by many goroutines
	// at once, after Journal.Begin. nil: an approval counts only in the process that asked for it, which remembers that.
	UseApproval func(ctx context.Context, a perdure.Approval) error
	Journal     Journal // nil: nothing outlives the process
	// Offers reports whether the loop offers its model a tool of this name, so that placeholders name no other. nil: none. It is
	// called by many goroutines at once.
	Offers func(tool string) bool
	Caps   Caps
	Keep   int    // tasks that have ended and can still be looked up, and open questions of an Inline: the newest; 0: DefaultKeep
	Replay int    // events that a subscriber can go back to, the newest; 0: DefaultReplay
	Runner Config // how work is stopped
}

// checked fills in the defaults. Invalid: there is nothing that executes, or no such policy for overflow.
func (c LoopConfig) checked() (LoopConfig, error) {
	if c.Execute == nil {
		return c, fmt.Errorf("dispatch: %w: LoopConfig.Execute is nil; give the function that runs a call", perdure.Invalid)
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
	if c.Keep <= 0 {
		c.Keep = DefaultKeep
	}
	if c.Replay <= 0 {
		c.Replay = DefaultReplay
	}
	if c.Offers == nil {
		c.Offers = func(string) bool { return false }
	}
	var err error
	c.Caps, err = c.Caps.filled()
	return c, err
}

// deadlineOf is how long one execution of a call may last (LN4).
func (c LoopConfig) deadlineOf(call tool.Call, spec tool.Spec) time.Duration {
	if c.Deadline != nil {
		if named := c.Deadline(call); named > 0 {
			return named
		}
	}
	return spec.HardDeadline()
}

// newID makes a UUIDv7.
func newID[T perdure.ID]() T {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails: it ends the process instead
	ms := time.Now().UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return perdure.FormatID[T](id)
}

// checkCall wants what every launch needs. Invalid says what is missing.
func checkCall(call tool.Call) error {
	if call.Tool == "" || call.ID == "" {
		return fmt.Errorf("start: %w: a launch needs a tool and a call id, got %q and %q", perdure.Invalid, call.Tool, call.ID)
	}
	return nil
}

// TaskNotFound is the error for a task that is not there, or belongs to another session (LN19). errors.Is tells
// perdure.NotFound.
type TaskNotFound struct{ Task perdure.TaskID }

// Error returns "task not found: ID".
func (e *TaskNotFound) Error() string { return "task not found: " + string(e.Task) }

// Is reports whether target is perdure.NotFound.
func (e *TaskNotFound) Is(target error) bool { return target == perdure.NotFound }
