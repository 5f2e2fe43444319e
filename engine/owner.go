package engine

import (
	"context"

	"github.com/perdure/perdure/budget"
)

// Owner is the owner of an object. It never changes.
type Owner struct {
	Org  string // never empty; budget.DefaultOrg for objects older than orgs
	User string // of the org; empty: no particular user
}

type ownerKey struct{}

// WithOwner returns a context in which the engine works for an owner: new objects belong to that
// owner, and lists contain only objects of that owner's org. It does not check permissions: a
// caller that passes the id of an object has already verified its owner.
func WithOwner(ctx context.Context, o Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, o)
}

// OwnerFromContext returns the owner that the engine works for. one is false if the context has
// none; new objects then belong to the default org, and lists contain the objects of every org.
func OwnerFromContext(ctx context.Context) (o Owner, one bool) {
	o, one = ctx.Value(ownerKey{}).(Owner)
	if !one {
		o = Owner{Org: budget.DefaultOrg}
	}
	return o, one
}
