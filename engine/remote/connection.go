package remote

import (
	"context"

	"github.com/perdure/perdure/engine"
)

// Connections lists the MCP servers whose tools agents may use.
func (e *Engine) Connections(ctx context.Context) ([]engine.Connection, error) {
	return list[engine.Connection](ctx, e, request{what: "connections", path: "/v1/connections"}, 0)
}

// TestConnection connects to a server again. It waits until the server answers or ctx ends.
func (e *Engine) TestConnection(ctx context.Context, name string) (c engine.Connection, err error) {
	return c, e.named(ctx, request{
		what: "test connection", path: "/v1/connections/", suffix: "/test", body: struct{}{}, noTimeout: true,
	}, name, &c)
}

// Providers lists the configured model providers.
func (e *Engine) Providers(ctx context.Context) ([]engine.Provider, error) {
	return list[engine.Provider](ctx, e, request{what: "providers", path: "/v1/providers"}, 0)
}
