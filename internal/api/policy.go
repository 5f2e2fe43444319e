package api

import (
	"context"

	"github.com/perdure/perdure/internal/access"
)

// policy is what a principal must hold to be served by an operation. It stands in the document, as the scope of the
// operation's security. An operation that names none is for administrators, and fails a test.
type policy = access.Scope

// The policies.
const (
	reads       = access.Read    // it shows what is there, and changes nothing
	writes      = access.Write   // it starts work, speaks, stops or takes away
	approves    = access.Approve // it is a person's word
	administers = access.Admin   // it is about rights and limits, or takes a session out or in whole
)

// scopesOf is a policy in the document. None is seen there, and fails a test.
func scopesOf(p policy) []string {
	if p == "" {
		return []string{}
	}
	return []string{string(p)}
}

// permit refuses whoever lacks what the operation of a pattern asks for (H11). Nobody is asked who holds the data directory.
func (a *API) permit(ctx context.Context, pattern string) error {
	who, asks := access.From(ctx)
	p, known := a.policies[pattern]
	if !asks || known && p == "" {
		return nil
	}
	return who.Check(orDefault(p, administers))
}

// whose is the org that a list is of, as a part of its name: a cursor of one org is none of another.
func whose(ctx context.Context) string {
	who, _ := access.From(ctx)
	return who.Org + " "
}
