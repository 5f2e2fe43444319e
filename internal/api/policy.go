package api

import (
	"github.com/danielgtaylor/huma/v2"

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

// permits lets only those pass who may (H11). Nobody is asked who holds the data directory.
func (a *API) permits(p policy) func(huma.Context, func(huma.Context)) {
	return func(c huma.Context, next func(huma.Context)) {
		if who, ok := access.From(c.Context()); ok {
			if err := who.Check(p); err != nil {
				_ = a.writeProblem(c, problemOf(c.Context(), err))
				return
			}
		}
		next(c)
	}
}

// writeProblem answers an operation that was not carried out.
func (a *API) writeProblem(c huma.Context, p *Problem) error {
	c.SetHeader("Content-Type", p.ContentType(""))
	c.SetStatus(p.Status)
	return writeJSON(c.BodyWriter(), p)
}
