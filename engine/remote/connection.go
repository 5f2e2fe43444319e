package remote

import (
	"context"

	"github.com/perdure/perdure/engine"
)

// Connections lists the servers whose tools agents may use.
func (e *Engine) Connections(ctx context.Context) ([]engine.Connection, error) {
	return list[engine.Connection](ctx, e, request{what: "connections", path: "/v1/connections"}, 0)
}

// TestConnection asks a server anew what it has. It takes as long as that does.
func (e *Engine) TestConnection(ctx context.Context, name string) (c engine.Connection, err error) {
	return c, e.named(ctx, request{what: "test connection", path: "/v1/connections/", under: "/test", body: struct{}{}, patient: true}, name, &c)
}

// Providers lists where models are asked.
func (e *Engine) Providers(ctx context.Context) ([]engine.Provider, error) {
	return list[engine.Provider](ctx, e, request{what: "providers", path: "/v1/providers"}, 0)
}
