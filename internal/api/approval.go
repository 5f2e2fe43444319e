package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/redact"
)

// Filters of the list that are no states.
const (
	pending perdure.ApprovalState = "pending" // a synonym of open
	decided perdure.ApprovalState = "decided" // every state but open
)

// ofApproval is the path of an approval.
type ofApproval struct {
	ID perdure.ApprovalID `path:"id" example:"appr_019aa0000000700080000000000000aa" doc:"The approval."`
}

// approving is the body of an approval (AP4, AP5).
type approving struct {
	ArgsDigest string          `json:"args_digest,omitempty" doc:"The args_digest that the caller reviewed. If the arguments have another digest, the approval is refused."`
	Args       json.RawMessage `json:"args,omitempty" doc:"An object. The call continues with these arguments instead. The policy evaluates it again and may request another approval."`
	Note       string          `json:"note,omitempty"`
}

// denying is the body of a denial (AP6).
type denying struct {
	ArgsDigest string `json:"args_digest,omitempty" doc:"The args_digest that the caller reviewed. If the arguments have another digest, the denial is refused."`
	Note       string `json:"note,omitempty" doc:"The text that the model reads instead of a result."`
}

func (a approvalHandlers) register() {
	read(a.API, operation{
		id: "list-approvals", path: "/v1/approvals", policy: reads, summary: "List approvals, in the order in which they were requested, newest first, or by risk",
	}, a.listApprovals)
	read(a.API, operation{
		id: "get-approval", path: "/v1/approvals/{id}", policy: reads, summary: "Show an approval", errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *ofApproval) (*single[perdure.Approval], error) {
		return singleOf(a.cfg.Engine.Approvals().Get(ctx, in.ID))
	})
	write(a.API, operation{
		id: "approve", path: "/v1/approvals/{id}/approve", policy: approves, summary: "Approve a call", errors: []int{http.StatusNotFound},
	}, body[approving]{example: approving{Note: "checked with the customer"}, optional: true}, a.approve)
	write(a.API, operation{
		id: "deny", path: "/v1/approvals/{id}/deny", policy: approves, class: stopsWork, summary: "Deny a call", errors: []int{http.StatusNotFound},
	}, body[denying]{example: denying{Note: "not on a Friday"}, optional: true}, a.deny)
}

func (a approvalHandlers) listApprovals(ctx context.Context, in *struct {
	Session perdure.SessionID     `query:"session" doc:"Only approvals of this session."`
	State   perdure.ApprovalState `query:"state" enum:"open,pending,approved,denied,expired,void,decided" doc:"Only approvals in this state; pending is the same as open, and decided is every state but open."`
	Order   string                `query:"order" enum:"oldest,newest,risk" doc:"Begin with the oldest approval, which is the default, or with the newest. risk begins with the calls that must not happen twice, then has those that may run again, and at the end those that change nothing; of each, the one that waits longest comes first. A list in the order newest or risk does not show all approvals requested after its first page."`
	Paged
}) (*page[perdure.Approval], error) {
	if in.State == pending {
		in.State = perdure.ApprovalOpen
	}
	name := orgPrefix(ctx) + fmt.Sprintf("approvals %q %q %q", in.Session, in.State, cmp.Or(in.Order, "oldest"))
	place, err := a.cursors.read(name, in.Cursor, 3)
	if err != nil {
		return nil, err
	}
	got, err := pageOfAppended(a.API, in.Paged, appendedList[perdure.Approval]{
		name: name,
		all: func() ([]perdure.Approval, error) {
			filter := engine.ApprovalFilter{Session: in.Session, State: in.State}
			if in.State == decided {
				filter.State = ""
			}
			all, err := a.cfg.Engine.Approvals().List(ctx, filter)
			moved := func() bool {
				return !slices.ContainsFunc(all, func(p perdure.Approval) bool { return string(p.ID) == place[2] })
			}
			if err == nil && place != nil && filter.State != "" && moved() { // the approval of the cursor is in another state now
				filter.State = ""
				all, err = a.cfg.Engine.Approvals().List(ctx, filter)
			}
			return inOrder(all, in.Order), err
		},
		match: func(p perdure.Approval) bool {
			return in.State == "" || p.State == in.State || in.State == decided && p.State != perdure.ApprovalOpen
		},
		id: func(p perdure.Approval) string { return string(p.ID) },
	})
	if err != nil {
		return nil, err
	}
	for i, p := range got.Body.Items {
		got.Body.Items[i] = approvalInList(p)
	}
	return got, nil
}

// inOrder returns approvals in an order of their list. all has the order of their requests.
func inOrder(all []perdure.Approval, order string) []perdure.Approval {
	switch order {
	case newest:
		all = slices.Clone(all)
		slices.Reverse(all)
	case "risk":
		all = slices.SortedFunc(slices.Values(all), func(p, q perdure.Approval) int {
			return cmp.Or(risk(p)-risk(q), p.RequestedAt.Compare(q.RequestedAt), cmp.Compare(p.ID, q.ID))
		})
	}
	return all
}

// risk is the place of an approval in the order of risk, by the effect class of its call. A class
// that is not known counts as the strictest.
func risk(p perdure.Approval) int {
	switch p.Class {
	case perdure.Pure:
		return 2
	case perdure.Idempotent:
		return 1
	}
	return 0
}

// approvalInList returns an approval as shown in a list, with redacted and shortened arguments
// (RD6). To decide, a caller reads the approval itself.
func approvalInList(p perdure.Approval) perdure.Approval {
	for _, args := range []*json.RawMessage{&p.Args, &p.NewArgs} {
		if len(*args) > 0 {
			*args = redact.JSON(*args)
		}
	}
	return p
}

func (a approvalHandlers) approve(ctx context.Context, in *ofApproval, body approving) (*single[perdure.Approval], error) {
	if len(body.Args) > 0 && !bytes.HasPrefix(body.Args, []byte("{")) {
		return nil, invalid("/args", "must be an object; omit it to approve the arguments unchanged")
	}
	return a.decide(ctx, in.ID, perdure.Verdict{Approve: true, Note: body.Note, ArgsHash: body.ArgsDigest, Args: body.Args})
}

func (a approvalHandlers) deny(ctx context.Context, in *ofApproval, body denying) (*single[perdure.Approval], error) {
	return a.decide(ctx, in.ID, perdure.Verdict{Note: body.Note, ArgsHash: body.ArgsDigest})
}

// decide records the caller's verdict. If a request with an idempotency key was started before and
// its verdict is already recorded, the response is the current approval.
func (a approvalHandlers) decide(ctx context.Context, id perdure.ApprovalID, v perdure.Verdict) (*single[perdure.Approval], error) {
	v.By = requestOf(ctx).actor
	decided, refused := a.cfg.Engine.Approvals().Decide(ctx, id, v)
	if refused == nil || !(errors.Is(refused, perdure.Conflict) && requestOf(ctx).repeated) {
		return &single[perdure.Approval]{decided}, refused
	}
	decided, err := a.cfg.Engine.Approvals().Get(ctx, id)
	want := perdure.ApprovalDenied
	if v.Approve {
		want = perdure.ApprovalApproved
	}
	if err == nil && (decided.State != want || decided.DecidedBy != v.By || decided.Note != v.Note) {
		err = refused
	}
	return &single[perdure.Approval]{decided}, err
}
