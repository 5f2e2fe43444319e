package access

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

// forUser checks a scope for the accounts of a user of the principal's org; an empty user is the
// principal's own. Accounts of others require the scope admin, and a change is reserved for people:
// the account that an agent connected could receive what its user sends.
func (g *Guard) forUser(ctx context.Context, s Scope, user string) (context.Context, error) {
	ctx, p, asks, err := g.authorizeScope(ctx, s)
	switch {
	case err != nil || !asks:
		return ctx, err
	case s == Write && p.Agent:
		return ctx, fmt.Errorf("%w: the token %s belongs to an agent, and only people may do this", perdure.Denied, p.ID)
	case user != "" && user != p.User:
		return ctx, p.Check(Admin)
	}
	return ctx, nil
}

// List lists the accounts of a user, and for the default org the servers.
func (g guardedConnections) List(ctx context.Context, user string) ([]engine.Connection, error) {
	ctx, err := g.forUser(ctx, Read, user)
	if err != nil {
		return nil, err
	}
	return g.inner.Connections().List(ctx, user)
}

// Test tests an account of the principal, or a server. A server may be started for it, so that also
// requires the scope admin, and the default org.
func (g guardedConnections) Test(ctx context.Context, name string) (engine.Connection, error) {
	acting, p, asks, err := g.authorizeScope(ctx, Write)
	if err == nil && asks && (!p.May(Admin) || p.Org != budget.DefaultOrg) {
		err = g.mayTest(ctx, p, name)
	}
	if err != nil {
		return engine.Connection{}, err
	}
	return g.inner.Connections().Test(acting, name)
}

// mayTest returns nil if the principal, who may not test servers, has an account of a name.
func (g guardedConnections) mayTest(ctx context.Context, p Principal, name string) error {
	own, err := g.hasAccount(ctx, name)
	switch {
	case err != nil || own:
		return err
	case p.Org != budget.DefaultOrg:
		return missingName("connection", name)
	}
	return p.Check(Admin)
}

// hasAccount reports whether the principal has an account at a provider.
func (g guardedConnections) hasAccount(ctx context.Context, provider string) (bool, error) {
	all, err := g.List(ctx, "")
	return slices.ContainsFunc(all, func(c engine.Connection) bool {
		return c.Kind == engine.ConnectionAccount && c.Name == provider
	}), err
}

// Put stores a token that a user gives. Cleanups of another owner would use it, so that requires
// the scope admin.
func (g guardedConnections) Put(ctx context.Context, w engine.ConnectionWrite) (engine.Connection, error) {
	ctx, err := g.forUser(ctx, Write, w.User)
	if p, asks := PrincipalFrom(ctx); err == nil && asks && w.Owner != "" && w.Owner != cmp.Or(w.User, p.User) {
		err = p.Check(Admin)
	}
	if err != nil {
		return engine.Connection{}, err
	}
	return g.inner.Connections().Put(ctx, w)
}

// Remove removes the connection of a user.
func (g guardedConnections) Remove(ctx context.Context, provider, user string) error {
	ctx, err := g.forUser(ctx, Write, user)
	if err != nil {
		return err
	}
	return g.inner.Connections().Remove(ctx, provider, user)
}

// Begin begins an authorization.
func (g guardedConnections) Begin(ctx context.Context, r engine.ConnectionRequest) (engine.ConnectionFlow, error) {
	ctx, err := g.forUser(ctx, Write, r.User)
	if err != nil {
		return engine.ConnectionFlow{}, err
	}
	return g.inner.Connections().Begin(ctx, r)
}

// Finish ends an authorization of the principal; the engine checks whose it is.
func (g guardedConnections) Finish(ctx context.Context, a engine.ConnectionAnswer) (engine.Connection, error) {
	ctx, err := g.forUser(ctx, Write, "")
	if err != nil {
		return engine.Connection{}, err
	}
	return g.inner.Connections().Finish(ctx, a)
}
