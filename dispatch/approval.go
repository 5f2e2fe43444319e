package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/strictjson"
	"github.com/perdure/perdure/tool"
)

// refusalResult returns the result of a launch whose decision does not let the call run, or nil. q
// is the approval as the dispatcher requested it. After a restart its Approval is zero, and only
// the launch says what was requested.
func refusalResult(l Launch, q PendingApproval, now time.Time) *tool.Result {
	if l.Approval == nil {
		return nil
	}
	text := perdure.TextNotMatching
	switch l.Approval.State {
	case perdure.ApprovalApproved:
		switch {
		case !matchesRequest(*l.Approval, l, q):
		case !decidedInTime(*l.Approval, now):
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
	return deniedResult(text)
}

// deniedResult returns the result of a call that was not approved.
func deniedResult(text string) *tool.Result {
	r := tool.Error(text)
	r.ErrorKind, r.Refused = perdure.ErrorDenied, true
	return &r
}

// matchesRequest reports whether an approval belongs to the question and to the launched call: the
// same task, call, tool, arguments and set of permissions. After a restart the executor compares
// the permissions, because only it knows them.
func matchesRequest(a perdure.Approval, l Launch, q PendingApproval) bool {
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

// decidedInTime reports whether an approval was decided before it expired. Without a time it is
// decided now.
func decidedInTime(a perdure.Approval, now time.Time) bool {
	if !a.DecidedAt.IsZero() {
		now = a.DecidedAt
	}
	return !a.Expired(now)
}

// replacementArgs returns the arguments that a person put in place of those of a launch; nil: none.
// Arguments that are not JSON are Invalid.
func replacementArgs(l Launch) ([]byte, error) {
	if l.Approval == nil || l.Approval.State != perdure.ApprovalApproved || len(l.Approval.NewArgs) == 0 {
		return nil, nil
	}
	if _, err := strictjson.Canonical(l.Approval.NewArgs); err != nil {
		return nil, fmt.Errorf("start task %s: %w approval: its new arguments: %w", l.Task, perdure.Invalid, err)
	}
	return l.Approval.NewArgs, nil
}

// callHash returns the fingerprint that an approval of the call is bound to. Arguments that are not
// JSON are used as they are.
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

// bindApproval completes an approval request of the executor and binds it to the call.
func bindApproval(a perdure.Approval, s Snapshot, call tool.Call) perdure.Approval {
	a.Task, a.Session, a.Call, a.Tool, a.State = s.Task, s.Session, s.Call, s.Tool, perdure.ApprovalOpen
	a.ArgsHash = callHash(call)
	a.ID = cmp.Or(a.ID, newID[perdure.ApprovalID]())
	if a.Args == nil {
		a.Args = call.Args
	}
	a.Class = cmp.Or(a.Class, call.Class)
	if a.RequestedAt.IsZero() {
		a.RequestedAt = time.Now()
	}
	return a
}

// checkApprovalOpen refuses an approval that is not open here if nothing remembers which approvals
// were used. A denial is always accepted.
func (c LoopConfig) checkApprovalOpen(l Launch, open bool) error {
	if open || c.ClaimApproval != nil || l.Approval == nil || l.Approval.State != perdure.ApprovalApproved {
		return nil
	}
	return fmt.Errorf("start task %s: %w: approval %s is not open here: it was already used, "+
		"or an earlier process requested it; to accept approvals that an earlier process requested, "+
		"set LoopConfig.UseApproval", l.Task, perdure.Conflict, l.Approval.ID)
}

// claimApproval claims the approval with which a launch is about to run.
func (c LoopConfig) claimApproval(ctx context.Context, l Launch) error {
	if c.ClaimApproval == nil {
		return nil
	}
	if err := c.ClaimApproval(ctx, *l.Approval); err != nil {
		return fmt.Errorf("start task %s: use approval %s: %w", l.Task, l.Approval.ID, err)
	}
	return nil
}
