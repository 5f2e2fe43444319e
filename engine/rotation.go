package engine

import (
	"context"

	"github.com/perdure/perdure/webhook"
)

type rotationKey struct{}

// Rotating returns a context of a request that may come more than once, and in which RotateWebhook carries it out once.
func Rotating(ctx context.Context, r webhook.Rotation) context.Context {
	return context.WithValue(ctx, rotationKey{}, r)
}

// RotationOf returns the request that a context is of; the zero value is one that comes once.
func RotationOf(ctx context.Context) webhook.Rotation {
	r, _ := ctx.Value(rotationKey{}).(webhook.Rotation)
	return r
}
