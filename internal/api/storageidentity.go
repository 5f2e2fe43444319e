package api

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type storageResponse struct{ Body engine.StorageIdentity }

func (a *API) storageOperations() {
	read(a, operation{id: "get-place", path: "/v1/place", policy: reads, summary: "Identify the store, without revealing where it is"},
		func(ctx context.Context, _ *struct{}) (*storageResponse, error) {
			if a.cfg.StorageIdentity == nil {
				return nil, fmt.Errorf("%w: this server does not identify its store", perdure.Unavailable)
			}
			p, err := a.cfg.StorageIdentity(ctx)
			return &storageResponse{Body: p}, err
		})
}
