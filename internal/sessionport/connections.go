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

// LocalUser is the user of a session without a user of its own: a session of the socket, of the
// data directory's token, or of a token without a user. It is the user of that name in the
// session's org, and that user's budgets count for the session.
const LocalUser = budget.LocalUser

// connections implements tool.Connections over the store. It serves the connections of the user
// that the session's row names, in the org that the row names (CN1). Every answer is read when the
// tool requests it.
type connections struct {
	binding
	cfg   Config
	cache *secretCache
}

var _ tool.Connections = connections{}

// Token opens the token at the time of the call, and refreshes it if it is about to expire.
// NotFound: the user has no connection to the provider, or it has expired. Unavailable: the token
// cannot be opened on this machine, or not be refreshed now, and the error says why.
func (p connections) Token(ctx context.Context, provider string) (string, error) {
	found, err := p.connection(ctx, provider)
	if err != nil {
		return "", err
	}
	token, err := p.cfg.freshToken(ctx, found)
	if err == nil {
		p.cache.addMask(p.session, token)
	}
	return token, err
}

// Owner returns the owner of the connection. NotFound: the user has no connection to the provider.
func (p connections) Owner(ctx context.Context, provider string) (string, error) {
	found, err := p.connection(ctx, provider)
	return cmp.Or(found.Owner, found.User), err
}

// Metadata returns the metadata of the connection. NotFound: the user has no connection to the
// provider.
func (p connections) Metadata(ctx context.Context, provider string) (json.RawMessage, error) {
	found, err := p.connection(ctx, provider)
	if err == nil && len(found.Metadata) == 0 {
		found.Metadata = json.RawMessage(`{}`)
	}
	return found.Metadata, err
}

// connection reads the connection of the session's user in the session's org, and never another
// one.
func (p connections) connection(ctx context.Context, provider string) (found store.Connection, err error) {
	exists := false
	err = p.store.View(ctx, func(r store.Reader) (err error) {
		row, err := r.Sessions().Get(p.session)
		if err == nil {
			found, exists, err = r.Directory().Connections().Get(store.ConnectionKey{
				Org: row.Org, User: cmp.Or(row.User, LocalUser), Provider: provider,
			})
		}
		return err
	})
	if err == nil && !exists {
		err = perdure.NotFound
	}
	if err != nil {
		return store.Connection{}, fmt.Errorf("connection to %.40q: %w", provider, err)
	}
	return found, nil
}

// ConnectionOf returns the token of the owner that a lease names, for the cleanup of the lease. It
// searches only the lease's org: first for the connection of that user, then for the single
// connection whose recorded owner is that owner. NotFound: there is no such connection, or there
// are several.
func (c Config) ConnectionOf(ctx context.Context, org, owner, provider string) (string, error) {
	var matches []store.Connection
	err := c.Store.View(ctx, func(r store.Reader) error {
		own, exists, err := r.Directory().Connections().Get(store.ConnectionKey{Org: org, User: owner, Provider: provider})
		if err != nil {
			return err
		}
		if exists && cmp.Or(own.Owner, own.User) == owner {
			matches = []store.Connection{own}
			return nil
		}
		all, err := r.Directory().Connections().List()
		matches = nil
		for _, one := range all {
			if one.Org == org && one.Provider == provider && one.Owner == owner {
				matches = append(matches, one)
			}
		}
		return err
	})
	if err == nil && len(matches) != 1 { // several matches are ambiguous: never pick the first
		err = perdure.NotFound
	}
	if err != nil {
		return "", fmt.Errorf("connection to %.40q of its owner: %w", provider, err)
	}
	return c.freshToken(ctx, matches[0])
}
