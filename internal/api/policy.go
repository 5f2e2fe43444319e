package api

import (
	"context"

	"github.com/perdure/perdure/internal/access"
)

// policy is the scope that a principal must hold for an operation. The OpenAPI document shows it in
// the security of the operation. An operation without a policy is restricted to administrators, and
// fails a test.
type policy = access.Scope

// The policies.
const (
	reads       = access.Read    // shows data and changes nothing
	writes      = access.Write   // starts work, sends messages, stops or removes
	approves    = access.Approve // decides in the name of a person
	administers = access.Admin   // changes rights and limits, or exports and imports whole sessions
)

// scopesOf returns a policy for the OpenAPI document. A missing policy is visible there, and fails
// a test.
func scopesOf(p policy) []string {
	if p == "" {
		return []string{}
	}
	return []string{string(p)}
}

// authorize refuses a principal without the scope of the requested operation (H11). The owner of
// the data directory has no principal in ctx and is not restricted.
func (a *API) authorize(ctx context.Context, pattern string) error {
	principal, asks := access.PrincipalFrom(ctx)
	p, known := a.policies[pattern]
	if !asks || known && p == "" {
		return nil
	}
	return principal.Check(orDefault(p, administers))
}

// orgPrefix returns the org of the caller as a prefix of a list name: a cursor of one org is
// invalid in another.
func orgPrefix(ctx context.Context) string {
	principal, _ := access.PrincipalFrom(ctx)
	return principal.Org + " "
}
