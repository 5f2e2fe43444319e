package main

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// File implements engine.Files.
func (r *reader) File(ctx context.Context, id perdure.SessionID, path string, content bool) (engine.File, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) (engine.File, error) {
		return eng.File(ctx, id, path, content)
	})
}

// Files implements engine.Files.
func (r *reader) Files(ctx context.Context, id perdure.SessionID, dir string, deep bool) ([]engine.File, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]engine.File, error) {
		return eng.Files(ctx, id, dir, deep)
	})
}

// Value implements engine.Values.
func (r *reader) Value(ctx context.Context, id perdure.SessionID, key string) (engine.Value, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) (engine.Value,
		error) {
		return eng.Value(ctx, id, key)
	})
}

// Values implements engine.Values.
func (r *reader) Values(ctx context.Context, id perdure.SessionID, prefix string) ([]engine.ValueStat, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]engine.ValueStat, error) {
		return eng.Values(ctx, id, prefix)
	})
}

// Secrets implements engine.Secrets.
func (r *reader) Secrets(ctx context.Context, id perdure.SessionID) ([]engine.Secret, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]engine.Secret,
		error) {
		return eng.Secrets(ctx, id)
	})
}

// Resources implements engine.Resources.
func (r *reader) Resources(ctx context.Context, id perdure.SessionID) ([]engine.SessionResource, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]engine.SessionResource, error) {
		return eng.Resources(ctx, id)
	})
}

// Resource implements engine.Resources.
func (r *reader) Resource(ctx context.Context, id perdure.SessionID, resource string) (engine.SessionResource, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) (engine.SessionResource, error) {
		return eng.Resource(ctx, id, resource)
	})
}
