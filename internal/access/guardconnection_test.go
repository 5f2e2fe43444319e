package access_test

import (
	"context"
	"errors"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/access"
)

// TestOwnerOfConnection: what is cleaned up for a user is cleaned up with that user's account, or
// with one that an administrator named.
func TestOwnerOfConnection(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t)
	for name, one := range map[string]struct {
		user, owner string
		admin       bool
		denied      bool
	}{
		"no owner":                    {},
		"the user":                    {owner: "ada"},
		"another owner":               {owner: "bob", denied: true},
		"another one, named by admin": {owner: "bob", admin: true},
		"another user":                {user: "bob", owner: "bob", denied: true},
		"another user, by admin":      {user: "bob", owner: "bob", admin: true},
	} {
		scopes := []access.Scope{access.Read, access.Write}
		if one.admin {
			scopes = append(scopes, access.Admin)
		}
		ctx := access.WithPrincipal(context.WithoutCancel(t.Context()), access.Principal{ID: "token_of_ada", Org: "default", User: "ada", Scopes: scopes})

		_, err := g.Connections().Put(ctx, engine.ConnectionWrite{Provider: "demo", User: one.user, Owner: one.owner, Token: "a token"})

		// an allowed write learns that this engine has no keyring
		if errors.Is(err, perdure.Denied) != one.denied || !one.denied && !errors.Is(err, perdure.Unavailable) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
