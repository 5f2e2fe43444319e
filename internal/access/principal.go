package access

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// Scope is something that a principal may do.
type Scope string

// The scopes. None contains another.
const (
	Read    Scope = "read"    // show what is there
	Write   Scope = "write"   // start work, speak, stop and take away
	Approve Scope = "approve" // a person's word: on a call that asks, on an outcome that nobody knows, on a soft limit
	Admin   Scope = "admin"   // tokens, budgets, whole sessions out and in
)

// All returns every scope.
func All() []Scope { return []Scope{Read, Write, Approve, Admin} }

// Valid reports whether s is a scope.
func (s Scope) Valid() bool { return slices.Contains(All(), s) }

// ofPeople are the scopes that no agent has, whatever its token says (H11).
func (s Scope) ofPeople() bool { return s == Approve || s == Admin }

// Root is the id of the principal of a data directory's own token. Its bearer is of org default, may do everything there, and
// lets others in, also those of other orgs.
const Root = "api"

// Principal is who asks.
type Principal struct {
	ID     string // of the token; Root for that of the data directory
	Name   string // of the token, for people
	Org    string
	User   string // empty: nobody in particular
	Agent  bool   // a program that a model steers: it can neither approve nor resolve
	Scopes []Scope
}

// May reports whether a principal may do what a scope names.
func (p Principal) May(s Scope) bool {
	return slices.Contains(p.Scopes, s) && (!p.Agent || !s.ofPeople())
}

// Check is nil when a principal may do what a scope names. Denied: what is missing.
func (p Principal) Check(s Scope) error {
	switch {
	case p.May(s):
		return nil
	case p.Agent && s.ofPeople():
		return fmt.Errorf("%w: the token %s is an agent's, and this is for people", perdure.Denied, p.ID)
	}
	return fmt.Errorf("%w: the token %s has not the scope %s", perdure.Denied, p.ID, s)
}

// Actor is the principal in records.
func (p Principal) Actor() string {
	return strings.TrimSpace(p.ID + " " + p.User)
}

type principalKey struct{}

// With returns a context in which a principal asks, and answers for what is done.
func With(ctx context.Context, p Principal) context.Context {
	return context.WithValue(store.Acting(ctx, p.Actor()), principalKey{}, p)
}

// From returns who asks. Not ok: the local operator.
func From(ctx context.Context) (p Principal, ok bool) {
	p, ok = ctx.Value(principalKey{}).(Principal)
	return p, ok
}
