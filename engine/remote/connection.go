package remote

import (
	"context"
	"net/url"
	"time"

	"github.com/perdure/perdure/engine"
)

const connectionPath = "/v1/connections/"

// ofUser returns the query that names a user; empty: the acting one.
func ofUser(user string) url.Values {
	if user == "" {
		return nil
	}
	return url.Values{"user": {user}}
}

// List lists the accounts of a user, and the MCP servers whose tools agents may use.
func (e engineConnections) List(ctx context.Context, user string) ([]engine.Connection, error) {
	return list[engine.Connection](ctx, e.Engine, request{what: "connections", path: "/v1/connections", query: ofUser(user)}, 0)
}

// Test tests an account, or connects to a server again. It waits until the server answers or ctx
// ends.
func (e engineConnections) Test(ctx context.Context, name string) (c engine.Connection, err error) {
	return c, e.named(ctx, request{
		what: "test connection", path: connectionPath, suffix: "/test", body: struct{}{}, noTimeout: true,
	}, name, &c)
}

// Put stores a token; the server encrypts it.
func (e engineConnections) Put(ctx context.Context, w engine.ConnectionWrite) (c engine.Connection, err error) {
	body := struct {
		Token   string    `json:"token"`
		User    string    `json:"user,omitempty"`
		Owner   string    `json:"owner,omitempty"`
		Hosts   []string  `json:"hosts,omitempty"`
		Expires time.Time `json:"expires_at,omitzero"`
	}{w.Token, w.User, w.Owner, w.Hosts, w.ExpiresAt}
	return c, e.named(ctx, request{what: "put connection", path: connectionPath, body: body, put: true}, w.Provider, &c)
}

// Remove removes the connection of a user.
func (e engineConnections) Remove(ctx context.Context, provider, user string) error {
	return e.named(ctx, request{what: "remove connection", path: connectionPath, remove: true, query: ofUser(user)}, provider, nil)
}

// Begin begins an authorization.
func (e engineConnections) Begin(ctx context.Context, r engine.ConnectionRequest) (f engine.ConnectionFlow, err error) {
	body := struct {
		User     string `json:"user,omitempty"`
		Redirect string `json:"redirect_url,omitempty"`
	}{r.User, r.RedirectURL}
	return f, e.named(ctx, request{what: "authorize connection", path: connectionPath, suffix: "/authorize", body: body}, r.Provider, &f)
}

// Finish ends an authorization.
func (e engineConnections) Finish(ctx context.Context, a engine.ConnectionAnswer) (engine.Connection, error) {
	return fetch[engine.Connection](ctx, e.Engine, request{what: "finish authorization", path: "/v1/connections:finish", body: a, noTimeout: true})
}
