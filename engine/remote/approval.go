package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

func approvalPath(id perdure.ApprovalID) string { return "/v1/approvals/" + segment(id) }

// Approvals lists approvals in the order in which they were asked for.
func (e *Engine) Approvals(ctx context.Context, f engine.ApprovalFilter) ([]perdure.Approval, error) {
	r := request{what: "approvals", path: "/v1/approvals", query: url.Values{}}
	if f.Session != "" {
		r.what = "approvals of " + string(f.Session)
		r.query.Set("session", string(f.Session))
	}
	if f.State != "" {
		r.query.Set("state", string(f.State))
	}
	return list[perdure.Approval](ctx, e, r, 0)
}

// Approval returns an approval.
func (e *Engine) Approval(ctx context.Context, id perdure.ApprovalID) (a perdure.Approval, err error) {
	_, err = e.call(ctx, request{what: "approval " + string(id), path: approvalPath(id)}, &a)
	return a, err
}

// DecideApproval records a person's verdict. Invalid: nobody is named who decides, though by whom it is is for the server
// to say.
func (e *Engine) DecideApproval(ctx context.Context, id perdure.ApprovalID, v perdure.Verdict) (a perdure.Approval, err error) {
	r := request{what: "decide approval " + string(id), path: approvalPath(id) + "/approve", actor: v.By}
	if v.By == "" {
		return a, fmt.Errorf("%s: %w verdict: nobody is named who gives it", r.what, perdure.Invalid)
	}
	body := struct {
		ArgsHash string          `json:"args_digest,omitempty"`
		Args     json.RawMessage `json:"args,omitempty"`
		Note     string          `json:"note,omitempty"`
	}{v.ArgsHash, v.Args, v.Note}
	if !v.Approve {
		r.path, body.Args = approvalPath(id)+"/deny", nil // nobody asks for the arguments of what does not run
	}
	r.body = body
	_, err = e.call(ctx, r, &a)
	return a, err
}
