package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// refused is the result of a launch whose answer lets nothing run, or nil. q is the question as the dispatcher put it; after
// a restart its Approval is zero, and the launch alone says what was asked (AP3, AP6).
func refused(l Launch, q Asked, now time.Time) *tool.Result {
	if l.Approval == nil {
		return nil
	}
	text := perdure.TextNotMatching
	switch l.Approval.State {
	case perdure.ApprovalApproved:
		switch {
		case !answers(*l.Approval, l, q):
		case !inTime(*l.Approval, now):
			text = perdure.TextExpired
		default:
			return nil
		}
	case perdure.ApprovalExpired:
		text = perdure.TextExpired
	case perdure.ApprovalDenied, perdure.ApprovalVoid:
		text = perdure.TextDenied
		if l.Approval.Note != "" {
			text = l.Approval.Note
		}
	}
	return deniedBecause(text)
}

// deniedBecause is the result of a call that was not approved (AP6).
func deniedBecause(text string) *tool.Result {
	r := tool.Error(text)
	r.ErrorAs, r.Refused = perdure.ErrorDenied, true
	return &r
}

// answers reports whether an approval is one to the question, for the call that is launched: the same task, call, tool,
// arguments and set of permissions. After a restart the permissions are compared by the executor, which knows them.
func answers(a perdure.Approval, l Launch, q Asked) bool {
	for _, call := range []tool.Call{l.Call, q.Call} {
		if a.Call != call.ID || a.Tool != call.Tool || a.Session != call.Session {
			return false
		}
	}
	asked := q.Approval
	if asked.ID == "" {
		asked = a
	}
	return a.ID != "" && a.ID == asked.ID && a.Task == q.Task && a.ArgsHash == asked.ArgsHash &&
		a.Binds(l.Call.Tool, callHash(l.Call), asked.Permissions)
}

// inTime reports whether an approval was given before its question expired. One that does not say when is given now.
func inTime(a perdure.Approval, now time.Time) bool {
	if !a.At.IsZero() {
		now = a.At
	}
	return !a.Expired(now)
}

// patch is what a person replaced the arguments of a launch with; nil: nothing. Invalid: it is no JSON.
func patch(l Launch) ([]byte, error) {
	if l.Approval == nil || l.Approval.State != perdure.ApprovalApproved || len(l.Approval.NewArgs) == 0 {
		return nil, nil
	}
	if _, err := perdure.CanonicalJSON(l.Approval.NewArgs); err != nil {
		return nil, fmt.Errorf("start task %s: %w approval: its new arguments: %w", l.Task, perdure.Invalid, err)
	}
	return l.Approval.NewArgs, nil
}

// callHash is the fingerprint that an approval of a call is bound to. Arguments that are no JSON stand for themselves.
func callHash(call tool.Call) string {
	args := call.Args
	if len(args) == 0 {
		args = []byte("{}")
	}
	hash, err := perdure.Fingerprint(call.Tool, args)
	if err != nil {
		return string(args)
	}
	return hash
}

// bound fills in what a question of the executor leaves to the dispatcher, and binds it to the call.
func bound(a perdure.Approval, s Snapshot, call tool.Call) perdure.Approval {
	a.Task, a.Session, a.Call, a.Tool, a.State = s.Task, s.Session, s.Call, s.Tool, perdure.ApprovalOpen
	a.ArgsHash = callHash(call)
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

// known refuses an answer to a question that is not open here, where nothing remembers which approvals were used. An answer
// that lets nothing run is always taken.
func (c LoopConfig) known(l Launch, open bool) error {
	if open || c.UseApproval != nil || l.Approval == nil || l.Approval.State != perdure.ApprovalApproved {
		return nil
	}
	return fmt.Errorf("start task %s: %w: approval %s is not open here: it was used, or an earlier process asked for it; "+
		"to accept answers to the questions of an earlier process, set LoopConfig.UseApproval", l.Task, perdure.Conflict, l.Approval.ID)
}

// use claims the approval that a launch is about to run with.
func (c LoopConfig) use(ctx context.Context, l Launch) error {
	if c.UseApproval == nil {
		return nil
	}
	if err := c.UseApproval(ctx, *l.Approval); err != nil {
		return fmt.Errorf("start task %s: use approval %s: %w", l.Task, l.Approval.ID, err)
	}
	return nil
}
