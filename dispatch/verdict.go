package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// verdict is how a call ended.
type verdict struct {
	state  perdure.TaskState
	result perdure.ToolResult
	err    error // for the log only (TL12)
}

// kind is the event that tells it. A tool that failed is never completed (LN19).
func (v verdict) kind() EventKind {
	switch v.state {
	case perdure.TaskSucceeded:
		return EventCompleted
	case perdure.TaskCanceled:
		return EventCanceled
	case perdure.TaskUnknown:
		return EventUnknown
	}
	return EventFailed
}

// judge turns the end of an execution that began at begun into the call's result. A real result that came before the
// fence is kept, whatever was asked meanwhile (RC3).
func judge(call perdure.CallID, begun time.Time, end End) verdict {
	r := end.Result
	if end.DidNotStop || end.Cause != "" && !r.IsSuccess() && (Echoes(r) || errors.Is(r.Err, context.DeadlineExceeded)) { // the last: the caller's own ctx
		refused := r.Refused
		r = Stopped(end.Cause, time.Since(begun))
		r.Refused = refused
	}
	v := verdict{state: perdure.TaskSucceeded}
	v.result, v.err = r.Record(call)
	switch {
	case v.result.ErrorKind == perdure.ErrorCanceled || v.result.ErrorKind == perdure.ErrorInterrupted:
		v.state = perdure.TaskCanceled
	case v.result.ErrorKind == perdure.ErrorUnknown:
		v.state = perdure.TaskUnknown
	case v.result.IsError() || v.result.ConnectionRequired != "":
		v.state = perdure.TaskFailed
	}
	return v
}

// Echoes reports whether a failed result only says that its context ended. It is told by type, never by text (BG14).
func Echoes(r tool.Result) bool {
	switch r.ErrorAs {
	case perdure.ErrorCanceled, perdure.ErrorInterrupted, perdure.ErrorTimeout:
		return true
	}
	var cause perdure.Cause
	return errors.As(r.Err, &cause) || errors.Is(r.Err, context.Canceled)
}

// Stopped is the result of work whose context ended with a cause, after so much time.
func Stopped(cause perdure.Cause, after time.Duration) tool.Result {
	r := tool.Error("The call was canceled.")
	r.ErrorAs = perdure.ErrorCanceled
	switch cause {
	case perdure.CauseInterrupt:
		r.Text, r.ErrorAs = perdure.TextInterrupted, perdure.ErrorInterrupted
	case perdure.CauseDeadline, perdure.CauseStall:
		r.Text, r.ErrorAs = fmt.Sprintf("Timed out after %s", after.Round(time.Second)), perdure.ErrorTimeout
	}
	return r
}

// notEntered is Stopped for a call whose tool was never entered.
func notEntered(cause perdure.Cause) tool.Result {
	r := Stopped(cause, 0)
	r.Refused = true
	return r
}

// filled is the call as its tool sees it, but for the task and the deadline.
func filled(call tool.Call, spec tool.Spec) tool.Call {
	if call.Class == "" {
		call.Class = spec.Class
	}
	if call.Key == "" {
		call.Key = perdure.CallKey{Session: call.Session, Call: call.ID}.IdempotencyKey()
	}
	call.Execution = 1
	return call
}
