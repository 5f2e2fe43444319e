package sessionport

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// LocalUser is for whom a session acts where nobody says otherwise: there is one user, who owns the runtime.
const LocalUser = "user"

// connections is the port tool.Connections over the store: what the session's user is connected to (CN1). Each answer is read
// when it is asked for.
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

// connection reads the row of the session's user, and of nobody else.
func (p connections) connection(ctx context.Context, provider string) (found store.Connection, err error) {
	there := false
	err = p.store.View(ctx, func(r store.Reader) (err error) {
		found, there, err = r.Connection(p.cfg.userOf(p.session), provider)
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

func (c Config) userOf(id perdure.SessionID) string {
	if c.User == nil {
		return LocalUser
	}
	return c.User(id)
}

// ConnectionOf returns the token of whoever a lease names as its owner, for those who clean up (RS7). It looks for the
// connection of that user, or else for the one user's that says it is that owner's. NotFound: there is none, or several.
func (c Config) ConnectionOf(ctx context.Context, owner, provider string) (string, error) {
	var fitting []store.Connection
	err := c.Store.View(ctx, func(r store.Reader) error {
		own, there, err := r.Connection(owner, provider)
		if err != nil {
			return err
		}
		if there && cmp.Or(own.Owner, own.User) == owner {
			fitting = []store.Connection{own}
			return nil
		}
		all, err := r.Connections("")
		fitting = nil
		for _, one := range all {
			if one.Provider == provider && one.Owner == owner {
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
