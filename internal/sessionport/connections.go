package sessionport

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// LocalUser is for whom a session acts that has no user: one of the socket, of the data directory's token, or of a token without a
// user. It is the user of that name in the org of the session, whose budgets count for such a session, too.
const LocalUser = budget.LocalUser

// connections is the port tool.Connections over the store: what the user is connected to whose row the session's names, in the org
// that it names (CN1). Each answer is read when it is asked for.
type connections struct {
	binding
	cfg   Config
	known *known
}

var _ tool.Connections = connections{}

// Token opens the token now. NotFound: not connected. Unavailable: it cannot be opened here, with the reason.
func (p connections) Token(ctx context.Context, provider string) (string, error) {
	found, err := p.connection(ctx, provider)
	if err != nil {
		return "", err
	}
	token, err := p.cfg.OpenToken(found)
	if err == nil {
		p.known.learn(p.session, token)
	}
	return token, err
}

// Owner is whose connection it is. NotFound: not connected.
func (p connections) Owner(ctx context.Context, provider string) (string, error) {
	found, err := p.connection(ctx, provider)
	return cmp.Or(found.Owner, found.User), err
}

// Metadata is what stands beside the token. NotFound: not connected.
func (p connections) Metadata(ctx context.Context, provider string) (json.RawMessage, error) {
	found, err := p.connection(ctx, provider)
	if err == nil && len(found.Metadata) == 0 {
		found.Metadata = json.RawMessage(`{}`)
	}
	return found.Metadata, err
}

// connection reads the row of the session's user in the session's org, and no other one.
func (p connections) connection(ctx context.Context, provider string) (found store.Connection, err error) {
	there := false
	err = p.store.View(ctx, func(r store.Reader) (err error) {
		row, err := r.Session(p.session)
		if err == nil {
			found, there, err = r.Connection(store.ConnectionKey{Org: row.Org, User: cmp.Or(row.User, LocalUser), Provider: provider})
		}
		return err
	})
	if err == nil && !there {
		err = perdure.NotFound
	}
	if err != nil {
		return store.Connection{}, fmt.Errorf("connection to %.40q: %w", provider, err)
	}
	return found, nil
}

// ConnectionOf returns the token of the owner that a lease names, for its clean-up (RS7). It looks in the org of the lease alone: for
// the connection of that user, or else for the one connection that says that it is that owner's. NotFound: there is none, or
// several.
func (c Config) ConnectionOf(ctx context.Context, org, owner, provider string) (string, error) {
	var fitting []store.Connection
	err := c.Store.View(ctx, func(r store.Reader) error {
		own, there, err := r.Connection(store.ConnectionKey{Org: org, User: owner, Provider: provider})
		if err != nil {
			return err
		}
		if there && cmp.Or(own.Owner, own.User) == owner {
			fitting = []store.Connection{own}
			return nil
		}
		all, err := r.Connections()
		fitting = nil
		for _, one := range all {
			if one.Org == org && one.Provider == provider && one.Owner == owner {
				fitting = append(fitting, one)
			}
		}
		return err
	})
	if err == nil && len(fitting) != 1 { // never "the first one"
		err = perdure.NotFound
	}
	if err != nil {
		return "", fmt.Errorf("connection to %.40q of its owner: %w", provider, err)
	}
	return c.OpenToken(fitting[0])
}
