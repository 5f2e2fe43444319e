package perdure_test

import (
	"testing"

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
