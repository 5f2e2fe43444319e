package api

import (
	"context"
	"net/http"

	"github.com/perdure/perdure/engine"
)

// moving is the empty body of a move.
type moving struct{}

// registerHomes adds the operations of homes.
func (a sessionHandlers) registerHomes() {
	read(a.API, operation{id: "list-homes", path: "/v1/homes", policy: administers, summary: "List the data directories of the servers that share the store, and what waits for each"}, a.listHomes)
	write(a.API, operation{
		id: "move-session", path: "/v1/sessions/{id}/move", policy: administers, summary: "Move a session whose files are at another home to this server; the files stay there", errors: []int{http.StatusNotFound},
	}, body[moving]{optional: true}, a.moveSession)
}

func (a sessionHandlers) listHomes(ctx context.Context, _ *struct{}) (*page[engine.Home], error) {
	all, err := a.cfg.Engine.Sessions().Homes(ctx)
	return pageOf(all, len(all), nil), err
}

func (a sessionHandlers) moveSession(ctx context.Context, in *OfSession, _ moving) (*oneSession, error) {
	s, err := a.cfg.Engine.Sessions().MoveHere(ctx, in.ID)
	return &oneSession{Body: s}, err
}
