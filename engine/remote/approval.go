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

// List lists approvals in the order of their requests.
func (e engineApprovals) List(ctx context.Context, f engine.ApprovalFilter) ([]perdure.Approval, error) {
	r := request{what: "approvals", path: "/v1/approvals", query: url.Values{}}
	if f.Session != "" {
		r.what = "approvals of " + string(f.Session)
		r.query.Set("session", string(f.Session))
	}
	if f.State != "" {
		r.query.Set("state", string(f.State))
	}
	return list[perdure.Approval](ctx, e.Engine, r, 0)
}

func (e engineApprovals) Get(ctx context.Context, id perdure.ApprovalID) (perdure.Approval, error) {
	return fetch[perdure.Approval](ctx, e.Engine, request{what: "approval " + string(id), path: approvalPath(id)})
}

// Decide records a person's verdict. Invalid: the verdict does not name the person,
// although the server decides who that is.
func (e engineApprovals) Decide(
	ctx context.Context, id perdure.ApprovalID, v perdure.Verdict,
) (a perdure.Approval, err error) {
	r := request{what: "decide approval " + string(id), path: approvalPath(id) + "/approve", actor: v.By}
	if v.By == "" {
		return a, fmt.Errorf("%s: %w verdict: it does not name the person who decides", r.what, perdure.Invalid)
	}
	body := struct {
		ArgsHash string          `json:"args_digest,omitempty"`
		Args     json.RawMessage `json:"args,omitempty"`
		Note     string          `json:"note,omitempty"`
	}{v.ArgsHash, v.Args, v.Note}
	if !v.Approve {
		r.path, body.Args = approvalPath(id)+"/deny", nil // a denied call needs no arguments
	}
	r.body = body
	_, err = e.call(ctx, r, &a)
	return a, err
}
