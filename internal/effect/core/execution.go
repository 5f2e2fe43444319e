package core

import (
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/tool"
)

// ToolCall is a ledger row in the form that a tool sees.
func ToolCall(row perdure.Call, deadline time.Time) tool.Call {
	return tool.Call{
		Session: row.Key.Session, Turn: row.Turn, ID: row.Key.Call, Task: row.Task,
		Attempt: row.Attempt, Execution: row.Executions,
		Tool: row.Tool, Args: row.Args, Key: row.Key.IdempotencyKey(), Class: row.Class, Deadline: deadline,
	}
}

// CallTime returns the journaled time of the message that holds a call, which is the same on every
// replay.
func CallTime(s *perdure.Session, id perdure.CallID) time.Time {
	for _, m := range slices.Backward(s.Transcript) {
		for _, call := range m.Calls() {
			if call.ID == id {
				return m.At
			}
		}
	}
	return s.CreatedAt
}

// Elapsed returns the time between two readings of a wall clock. It is zero if the clock was set
// back in between.
func Elapsed(from, to time.Time) time.Duration { return max(to.Sub(from), 0) }

// CauseResult is the result of work whose context ended for a cause.
func CauseResult(cause perdure.Cause, row perdure.Call) tool.Result {
	return dispatch.Stopped(cause, Elapsed(row.ClaimedAt, time.Now()))
}

// UnknownResult is the result of work whose outcome cannot be known.
func UnknownResult() tool.Result {
	r := tool.Error(perdure.TextUnknown)
	r.ErrorKind = perdure.ErrorUnknown
	return r
}

// LeftForRestart reports work that had not ended by itself when the engine stopped. It is left for
// the next start. A real result that arrived in time counts as an end.
func LeftForRestart(end dispatch.End) bool {
	return end.Cause == perdure.CauseShutdown && (end.DidNotStop || !end.Result.IsSuccess())
}

// Gate returns the gate that judges the calls of this worker.
func (c *Core) Gate() dispatch.Gate {
	return dispatch.Gate{Hooks: c.Policies.Hooks, HookTimeout: c.Timing.Grace, Permit: c.Policies.Permit, Log: c.Log}
}

// Guarded runs foreign code that runs outside the runner: a tool's start ticket, a file store, a
// model. A panic becomes an error, and its stack is logged.
func (c *Core) Guarded(what string, fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.Log.Error("panic recovered", "in", what, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("%s: panic: %v", what, p)
		}
	}()
	return fn()
}
