package perdure_test

import (
	"errors"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

// TestApprovalBinds gives an answer to questions that differ in one thing each (AP3).
func TestApprovalBinds(t *testing.T) {
	t.Parallel()
	read := perdure.Permission{Kind: "path", Target: "/a", Reason: "to look"}
	dial := perdure.Permission{Kind: "host", Target: "example.org"}
	a := perdure.Approval{Tool: "deploy", ArgsHash: "sha256:1", Permissions: []perdure.Permission{read, dial}}
	reworded := read
	reworded.Reason = "to read"
	for _, c := range []struct {
		name        string
		tool, args  string
		permissions []perdure.Permission
		want        bool
	}{
		{"the_same", "deploy", "sha256:1", []perdure.Permission{read, dial}, true},
		{"in_another_order", "deploy", "sha256:1", []perdure.Permission{dial, read}, true},
		{"for_another_reason", "deploy", "sha256:1", []perdure.Permission{reworded, dial}, true},
		{"another_tool", "destroy", "sha256:1", []perdure.Permission{read, dial}, false},
		{"other_arguments", "deploy", "sha256:2", []perdure.Permission{read, dial}, false},
		{"one_permission_less", "deploy", "sha256:1", []perdure.Permission{read}, false},
		{"one_permission_more", "deploy", "sha256:1", []perdure.Permission{read, dial, {Kind: "path", Target: "/b"}}, false},
		{"another_target", "deploy", "sha256:1", []perdure.Permission{{Kind: "path", Target: "/b"}, dial}, false},
		{"the_same_twice", "deploy", "sha256:1", []perdure.Permission{read, dial, read}, true}, // a set
		{"no_arguments_known", "deploy", "", []perdure.Permission{read, dial}, false},
		{"no_tool", "", "sha256:1", []perdure.Permission{read, dial}, false},
		{"no_permissions", "deploy", "sha256:1", nil, false},
		{"another_kind", "deploy", "sha256:1", []perdure.Permission{{Kind: "host", Target: "/a"}, dial}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := a.Binds(c.tool, c.args, c.permissions); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
}

// TestApprovalWithoutArgumentsBindsNothing answers an approval request without recorded arguments.
func TestApprovalWithoutArgumentsBindsNothing(t *testing.T) {
	t.Parallel()
	a := perdure.Approval{Tool: "deploy"}
	if a.Binds("deploy", "", nil) {
		t.Error("an approval without a fingerprint binds a call")
	}
}

// TestLateVerdict gives a verdict after the time of its approval, before anybody has closed it
// (AP6).
func TestLateVerdict(t *testing.T) {
	t.Parallel()
	asked := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := perdure.Approval{ID: "appr_1", State: perdure.ApprovalOpen, ExpiresAt: asked.Add(time.Hour)}
	yes := perdure.Verdict{Approve: true, By: "user"}
	if r, err := a.Resolve(yes, asked.Add(time.Hour-time.Nanosecond)); err != nil || r.State != perdure.ApprovalApproved {
		t.Errorf("in time: got %+v, %v", r, err)
	}
	if r, err := a.Resolve(yes, asked.Add(time.Hour)); !errors.Is(err, perdure.Conflict) {
		t.Errorf("late: got %+v, %v, want Conflict", r, err)
	}
	a.ExpiresAt = time.Time{}
	if _, err := a.Resolve(yes, asked.Add(1000*time.Hour)); err != nil {
		t.Errorf("without a time: %v", err)
	}
}
