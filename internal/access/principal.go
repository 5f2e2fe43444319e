package access

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// Scope is a permission of a principal.
type Scope string

// The scopes. No scope includes another.
const (
	Read    Scope = "read"    // read everything
	Write   Scope = "write"   // start work, send messages, cancel and delete
	Approve Scope = "approve" // decisions of a person: approve calls, resolve unknown outcomes, pass soft limits
	Admin   Scope = "admin"   // tokens, budgets, export and import of sessions
)

// All returns every scope.
func All() []Scope { return []Scope{Read, Write, Approve, Admin} }

// Valid reports whether s is a scope.
func (s Scope) Valid() bool { return slices.Contains(All(), s) }

// peopleOnly reports whether a scope is reserved for people: an agent never has it, whatever its
// token says (H11).
func (s Scope) peopleOnly() bool { return s == Approve || s == Admin }

// Root is the id of the principal of the data directory's own token. It belongs to the default org,
// may do everything there, and can create tokens for any org.
const Root = "api"

// Principal is an authenticated caller.
type Principal struct {
	ID     string // of the token; Root for the data directory's own token
	Name   string // of the token, for people
	Org    string
	User   string // empty: no particular user
	Agent  bool   // a program controlled by a model: it can neither approve nor resolve
	Scopes []Scope
}

// May reports whether a principal has a scope.
func (p Principal) May(s Scope) bool {
	return slices.Contains(p.Scopes, s) && (!p.Agent || !s.peopleOnly())
}

// Check returns nil if a principal has a scope. Denied: it does not.
func (p Principal) Check(s Scope) error {
	switch {
	case p.May(s):
		return nil
	case p.Agent && s.peopleOnly():
		return fmt.Errorf("%w: the token %s belongs to an agent, and only people may do this", perdure.Denied, p.ID)
	}
	return fmt.Errorf("%w: the token %s does not have the scope %s", perdure.Denied, p.ID, s)
}

// Actor returns the name of the principal in records.
func (p Principal) Actor() string {
	return strings.TrimSpace(p.ID + " " + p.User)
}

type principalKey struct{}

// WithPrincipal returns a context with a principal, who is also the actor of what is done in it.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(store.Acting(ctx, p.Actor()), principalKey{}, p)
}

// PrincipalFrom returns the principal of a context. ok is false for the local operator.
func PrincipalFrom(ctx context.Context) (p Principal, ok bool) {
	p, ok = ctx.Value(principalKey{}).(Principal)
	return p, ok
}
