package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// verdict is how a call ended.
type verdict struct {
	state  perdure.TaskState
	result perdure.ToolResult
	err    error // only for the log
}

// kind returns the kind of the event that reports the end. A tool that failed never counts as
// completed.
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

// verdictOf turns the end of an execution into the result of the call. A real result that came
// before the fence is kept, even if a stop was requested meanwhile.
func verdictOf(call perdure.CallID, startedAt time.Time, end End) verdict {
	r := end.Result
	if end.DidNotStop || end.Cause != "" && !r.IsSuccess() &&
		(OnlyReportsCause(r) || errors.Is(r.Err, context.DeadlineExceeded)) { // the last case is the caller's own context
		refused := r.Refused
		r = Stopped(end.Cause, time.Since(startedAt))
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

// OnlyReportsCause reports whether a failed result only says that its context ended. The check uses
// error types, never texts.
func OnlyReportsCause(r tool.Result) bool {
	switch r.ErrorKind {
	case perdure.ErrorCanceled, perdure.ErrorInterrupted, perdure.ErrorTimeout:
		return true
	}
	var cause perdure.Cause
	return errors.As(r.Err, &cause) || errors.Is(r.Err, context.Canceled)
}

// Stopped returns the result of work whose context ended with a cause after the given time.
func Stopped(cause perdure.Cause, after time.Duration) tool.Result {
	r := tool.Error("The call was canceled.")
	r.ErrorKind = perdure.ErrorCanceled
	switch cause {
	case perdure.CauseInterrupt:
		r.Text, r.ErrorKind = perdure.TextInterrupted, perdure.ErrorInterrupted
	case perdure.CauseDeadline, perdure.CauseStall:
		r.Text, r.ErrorKind = fmt.Sprintf("Timed out after %s", after.Round(time.Second)), perdure.ErrorTimeout
	}
	return r
}

// stoppedBeforeStart is Stopped for a call whose tool was never entered.
func stoppedBeforeStart(cause perdure.Cause) tool.Result {
	r := Stopped(cause, 0)
	r.Refused = true
	return r
}

// callFor returns the call of a launch. The tool, hooks and the routing policy learn the metadata
// of the request, unless the call says itself for whom it is made.
func callFor(l Launch) tool.Call {
	call := l.Call
	if call.For == nil && len(l.Metadata) > 0 {
		call.For = &tool.Caller{Request: maps.Clone(l.Metadata)}
	}
	return call
}

// completeCall completes the call for its tool, except for the task and the deadline.
func completeCall(call tool.Call, spec tool.Spec) tool.Call {
	call.Class = cmp.Or(call.Class, spec.Class)
	call.Key = cmp.Or(call.Key, perdure.CallKey{Session: call.Session, Call: call.ID}.IdempotencyKey())
	call.Execution = 1
	return call
}
