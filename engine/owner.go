package engine

import (
	"context"

	"github.com/perdure/perdure/budget"
)

// Owner is whose something is. It does not change.
type Owner struct {
	Org  string // never empty; budget.DefaultOrg for what was there before there were orgs
	User string // of the org; empty: nobody's in particular
}

type ownerKey struct{}

// For returns a context in which an engine works for an owner: what it starts belongs to them, and its lists show only what
// is their org's. It looks at nobody's rights: whoever calls with the id of something has made sure whose that is.
func For(ctx context.Context, o Owner) context.Context { return context.WithValue(ctx, ownerKey{}, o) }

// OwnerOf returns for whom an engine works. Not one: what it starts is the default org's, and its lists show everything.
func OwnerOf(ctx context.Context) (o Owner, one bool) {
	o, one = ctx.Value(ownerKey{}).(Owner)
	if !one {
		o = Owner{Org: budget.DefaultOrg}
	}
	return o, one
}
