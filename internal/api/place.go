package api

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type onePlace struct{ Body engine.Place }

func (a *API) placeOperations() {
	read(a, operation{id: "get-place", path: "/v1/place", policy: reads, summary: "Tell one store from another, without saying where it is"},
		func(ctx context.Context, _ *struct{}) (*onePlace, error) {
			if a.cfg.Place == nil {
				return nil, fmt.Errorf("%w: this server does not say where it keeps its sessions", perdure.Unavailable)
			}
			p, err := a.cfg.Place(ctx)
			return &onePlace{Body: p}, err
		})
}
