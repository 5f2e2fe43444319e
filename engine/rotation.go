package engine

import (
	"context"

	"github.com/perdure/perdure/webhook"
)

type rotationKey struct{}

// WithRotation returns a context for a request that a client may repeat. Webhooks.Rotate carries
// such a request out once.
func WithRotation(ctx context.Context, r webhook.Rotation) context.Context {
	return context.WithValue(ctx, rotationKey{}, r)
}

// RotationFromContext returns the request of a context. The zero value is a request that is not
// repeated.
func RotationFromContext(ctx context.Context) webhook.Rotation {
	r, _ := ctx.Value(rotationKey{}).(webhook.Rotation)
	return r
}
