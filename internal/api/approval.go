package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/redact"
)

// pending is another word for an open approval, in the filter of the list.
const pending perdure.ApprovalState = "pending"

// ofApproval is the path of an approval.
type ofApproval struct {
	ID perdure.ApprovalID `path:"id" example:"appr_019aa0000000700080000000000000aa" doc:"The approval."`
}

type oneApproval struct{ Body perdure.Approval }

// approving is the body of a yes (AP4, AP5).
type approving struct {
	ArgsDigest string          `json:"args_digest,omitempty" doc:"The args_digest that you saw. With it, an approval of anything else is refused."`
	Args       json.RawMessage `json:"args,omitempty" doc:"An object. The call goes on with these arguments instead, is judged anew, and may be asked about again."`
	Note       string          `json:"note,omitempty"`
}

// denying is the body of a no (AP6).
type denying struct {
	ArgsDigest string `json:"args_digest,omitempty" doc:"The args_digest that you saw. With it, a denial of anything else is refused."`
	Note       string `json:"note,omitempty" doc:"What the model reads instead of a result."`
}

func (a *API) approvalOperations() {
	read(a, operation{
		id: "list-approvals", path: "/v1/approvals", policy: reads, summary: "List the questions whether calls may run, in the order in which they were asked",
	}, a.listApprovals)
	read(a, operation{
		id: "get-approval", path: "/v1/approvals/{id}", policy: reads, summary: "Show an approval", errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *ofApproval) (*oneApproval, error) {
		found, err := a.cfg.Engine.Approval(ctx, in.ID)
		return &oneApproval{Body: found}, err
	})
	write(a, operation{
		id: "approve", path: "/v1/approvals/{id}/approve", policy: approves, summary: "Let the call run", errors: []int{http.StatusNotFound},
	}, body[approving]{example: approving{Note: "checked with the customer"}, optional: true}, a.approve)
	write(a, operation{
		id: "deny", path: "/v1/approvals/{id}/deny", policy: approves, summary: "Refuse the call", errors: []int{http.StatusNotFound},
	}, body[denying]{example: denying{Note: "not on a Friday"}, optional: true}, a.deny)
}

func (a *API) listApprovals(ctx context.Context, in *struct {
	Session perdure.SessionID     `query:"session" doc:"Only those of this session."`
	State   perdure.ApprovalState `query:"state" enum:"open,pending,approved,denied,expired,void" doc:"Only those in this state; pending is open."`
	Paged
}) (*page[perdure.Approval], error) {
	if in.State == pending {
		in.State = perdure.ApprovalOpen
	}
	got, err := walk(a, in.Paged, grown[perdure.Approval]{
		which: whose(ctx) + fmt.Sprintf("approvals %q %q", in.Session, in.State),
		all: func() ([]perdure.Approval, error) {
			filter := engine.ApprovalFilter{Session: in.Session}
			if in.Cursor == "" { // what a cursor names may be in another state by now
				filter.State = in.State
			}
			return a.cfg.Engine.Approvals(ctx, filter)
		},
		match: func(p perdure.Approval) bool { return in.State == "" || p.State == in.State },
		id:    func(p perdure.Approval) string { return string(p.ID) },
	})
	if err != nil {
		return nil, err
	}
	for i, p := range got.Body.Items {
		got.Body.Items[i] = inList(p)
	}
	return got, nil
}

// inList is an approval in a list, where the arguments are redacted and cut (RD6). Whoever decides reads the approval itself.
func inList(p perdure.Approval) perdure.Approval {
	for _, args := range []*json.RawMessage{&p.Args, &p.NewArgs} {
		if len(*args) > 0 {
			*args = redact.JSON(*args)
		}
	}
	return p
}

func (a *API) approve(ctx context.Context, in *ofApproval, body approving) (*oneApproval, error) {
	if len(body.Args) > 0 && !bytes.HasPrefix(body.Args, []byte("{")) {
		return nil, invalid("/args", "an object; leave it out to approve the arguments as they are")
	}
	return a.decide(ctx, in.ID, perdure.Verdict{Approve: true, Note: body.Note, ArgsHash: body.ArgsDigest, Args: body.Args})
}

func (a *API) deny(ctx context.Context, in *ofApproval, body denying) (*oneApproval, error) {
	return a.decide(ctx, in.ID, perdure.Verdict{Note: body.Note, ArgsHash: body.ArgsDigest})
}

// decide gives the verdict of whoever asks. A request with an idempotency key that was begun before, and finds its
// verdict given, answers with the approval as it is.
func (a *API) decide(ctx context.Context, id perdure.ApprovalID, v perdure.Verdict) (*oneApproval, error) {
	v.By = requestOf(ctx).actor
	decided, refused := a.cfg.Engine.DecideApproval(ctx, id, v)
	if refused == nil || !(errors.Is(refused, perdure.Conflict) && requestOf(ctx).again) {
		return &oneApproval{Body: decided}, refused
	}
	decided, err := a.cfg.Engine.Approval(ctx, id)
	want := perdure.ApprovalDenied
	if v.Approve {
		want = perdure.ApprovalApproved
	}
	if err == nil && (decided.State != want || decided.By != v.By || decided.Note != v.Note) {
		err = refused
	}
	return &oneApproval{Body: decided}, err
}
