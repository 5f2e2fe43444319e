package main

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// readerFiles implements engine.Files for reader.
type readerFiles struct {
	engine.Files
	*reader
}

// Files implements engine.Engine.
func (r *reader) Files() engine.Files { return readerFiles{r.remoteEngine.Files(), r} }

// Get implements engine.Files.
func (r readerFiles) Get(ctx context.Context, id perdure.SessionID, path string, content bool) (engine.File, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) (engine.File, error) {
		return eng.Files().Get(ctx, id, path, content)
	})
}

// List implements engine.Files.
func (r readerFiles) List(ctx context.Context, id perdure.SessionID, dir string, deep bool) ([]engine.File, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) ([]engine.File, error) {
		return eng.Files().List(ctx, id, dir, deep)
	})
}

// readerValues implements engine.Values for reader.
type readerValues struct {
	engine.Values
	*reader
}

// Values implements engine.Engine.
func (r *reader) Values() engine.Values { return readerValues{r.remoteEngine.Values(), r} }

// Get implements engine.Values.
func (r readerValues) Get(ctx context.Context, id perdure.SessionID, key string) (engine.Value, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) (engine.Value,
		error) {
		return eng.Values().Get(ctx, id, key)
	})
}

// List implements engine.Values.
func (r readerValues) List(ctx context.Context, id perdure.SessionID, prefix string) ([]engine.ValueStat, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) ([]engine.ValueStat, error) {
		return eng.Values().List(ctx, id, prefix)
	})
}

// readerSecrets implements engine.Secrets for reader.
type readerSecrets struct {
	engine.Secrets
	*reader
}

// Secrets implements engine.Engine.
func (r *reader) Secrets() engine.Secrets { return readerSecrets{r.remoteEngine.Secrets(), r} }

// List implements engine.Secrets.
func (r readerSecrets) List(ctx context.Context, id perdure.SessionID) ([]engine.Secret, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) ([]engine.Secret,
		error) {
		return eng.Secrets().List(ctx, id)
	})
}

// readerResources implements engine.Resources for reader.
type readerResources struct {
	engine.Resources
	*reader
}

// Resources implements engine.Engine.
func (r *reader) Resources() engine.Resources { return readerResources{r.remoteEngine.Resources(), r} }

// List implements engine.Resources.
func (r readerResources) List(ctx context.Context, id perdure.SessionID) ([]engine.SessionResource, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) ([]engine.SessionResource, error) {
		return eng.Resources().List(ctx, id)
	})
}

// Get implements engine.Resources.
func (r readerResources) Get(ctx context.Context, id perdure.SessionID, resource string) (engine.SessionResource, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) (engine.SessionResource, error) {
		return eng.Resources().Get(ctx, id, resource)
	})
}
