package dispatch

import (
	"bytes"
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

// denied is the result of a call that a person did not let through, or nil. The answer must be one to what was asked
// (AP3, AP6).
func denied(answer *perdure.Approval, asked Asked) *tool.Result {
	if answer == nil {
		return nil
	}
	text := perdure.TextNotMatching
	switch answer.State {
	case perdure.ApprovalApproved:
		if answers(*answer, asked) {
			return nil
		}
	case perdure.ApprovalExpired:
		text = perdure.TextExpired
	case perdure.ApprovalDenied, perdure.ApprovalVoid:
		text = perdure.TextDenied
		if answer.Note != "" {
			text = answer.Note
		}
	}
	r := tool.Error(text)
	r.ErrorAs, r.Refused = perdure.ErrorDenied, true
	return &r
}

// answers reports whether an approval is one to this question, as far as it is known: after a restart only the
// launch says what was asked.
func answers(a perdure.Approval, asked Asked) bool {
	q := asked.Approval
	if a.Task != asked.Task || a.Call != asked.Call.ID || a.Tool != asked.Call.Tool || a.Session != asked.Call.Session {
		return false
	}
	return q.ID == "" || a.ID == q.ID && a.Binds(q.Tool, q.ArgsHash, q.Permissions)
}

// sameCall reports whether a launch goes on with the call that was asked about. A launch without a call does.
func sameCall(l, asked tool.Call) bool {
	return l.Tool == "" || l.Tool == asked.Tool && l.ID == asked.ID && l.Session == asked.Session && bytes.Equal(l.Args, asked.Args)
}

// bound fills in what a question of the executor leaves to the dispatcher.
func bound(a perdure.Approval, s Snapshot, call tool.Call) perdure.Approval {
	a.Task, a.Session, a.Call, a.Tool, a.State = s.Task, s.Session, s.Call, s.Tool, perdure.ApprovalOpen
	if a.ID == "" {
		a.ID = newID[perdure.ApprovalID]()
	}
	if a.Args == nil {
		a.Args = call.Args
	}
	if a.Class == "" {
		a.Class = call.Class
	}
	if a.RequestedAt.IsZero() {
		a.RequestedAt = time.Now()
	}
	return a
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
