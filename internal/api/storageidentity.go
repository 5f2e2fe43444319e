package api

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

func (a *API) registerStorageIdentity() {
	read(a, operation{id: "get-place", path: "/v1/place", policy: reads, summary: "Identify the store, without revealing where it is"},
		func(ctx context.Context, _ *struct{}) (*single[engine.StorageIdentity], error) {
			if a.cfg.StorageIdentity == nil {
				return nil, fmt.Errorf("%w: this server does not identify its store", perdure.Unavailable)
			}
			return singleOf(a.cfg.StorageIdentity(ctx))
		})
}
