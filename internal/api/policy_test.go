package api_test

import (
	"testing"

	"github.com/perdure/perdure/internal/access"
)

// openOperations are those that need no token. One more is a decision, made here.
var openOperations = map[string]bool{"health": true, "readiness": true, "openapi": true, "documents": true, "document": true, "document-list": true,
	// the browser of a user comes back from another service; the state that only the user has
	// decides
	"connection-callback": true}

// TestEveryOperationHasAPolicy refuses an operation that does not say in the document what a token
// must allow.
func TestEveryOperationHasAPolicy(t *testing.T) {
	t.Parallel()
	s, _ := newRig(t, nil).document()
	s.each(func(method, path string, op operation) {
		switch {
		case openOperations[op.ID]:
			if len(op.Security) != 0 {
				t.Errorf("%s (%s %s) is open, and its security is %v", op.ID, method, path, op.Security)
			}
		case len(op.Security) != 1 || len(op.Security[0]["bearer"]) != 1 || !access.Scope(op.Security[0]["bearer"][0]).Valid():
			t.Errorf("%s (%s %s) has no policy: its security is %v; name one in its operation", op.ID, method, path, op.Security)
		}
	})
}
