package remote

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// Homes lists the homes of the store of the server.
func (e engineSessions) Homes(ctx context.Context) ([]engine.Home, error) {
	got, err := fetch[page[engine.Home]](ctx, e.Engine, request{what: "homes", path: "/v1/homes"})
	return got.Items, err
}

// MoveHere binds a session to the home of the server.
func (e engineSessions) MoveHere(ctx context.Context, id perdure.SessionID) (engine.Session, error) {
	return fetch[engine.Session](ctx, e.Engine, request{
		what: "move " + string(id), path: "/v1/sessions/" + segment(id) + "/move", body: struct{}{},
	})
}
