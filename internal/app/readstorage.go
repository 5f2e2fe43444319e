package app

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// readerFiles implements engine.Files for reader.
type readerFiles struct {
	engine.Files
	readerNoun[engine.Files]
}

func (r *reader) Files() engine.Files {
	return readerFiles{r.remoteEngine.Files(), nounOf(r, engine.Engine.Files)}
}

func (r readerFiles) Get(ctx context.Context, id perdure.SessionID, path string, content bool) (engine.File, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) (engine.File, error) {
		return eng.Files().Get(ctx, id, path, content)
	})
}

func (r readerFiles) List(ctx context.Context, id perdure.SessionID, dir string, deep bool) ([]engine.File, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) ([]engine.File, error) {
		return eng.Files().List(ctx, id, dir, deep)
	})
}

func (r readerFiles) Grep(ctx context.Context, id perdure.SessionID, s engine.FileSearch) (engine.FileMatches, error) {
	return ask2(ctx, r.readerNoun, engine.Files.Grep, id, s)
}

// readerValues implements engine.Values for reader.
type readerValues struct {
	engine.Values
	readerNoun[engine.Values]
}

func (r *reader) Values() engine.Values {
	return readerValues{r.remoteEngine.Values(), nounOf(r, engine.Engine.Values)}
}

func (r readerValues) Get(ctx context.Context, id perdure.SessionID, key string) (engine.Value, error) {
	return ask2(ctx, r.readerNoun, engine.Values.Get, id, key)
}

func (r readerValues) List(ctx context.Context, id perdure.SessionID, prefix string) ([]engine.ValueStat, error) {
	return ask2(ctx, r.readerNoun, engine.Values.List, id, prefix)
}

// readerSecrets implements engine.Secrets for reader.
type readerSecrets struct {
	engine.Secrets
	readerNoun[engine.Secrets]
}

func (r *reader) Secrets() engine.Secrets {
	return readerSecrets{r.remoteEngine.Secrets(), nounOf(r, engine.Engine.Secrets)}
}

func (r readerSecrets) List(ctx context.Context, id perdure.SessionID) ([]engine.Secret, error) {
	return ask1(ctx, r.readerNoun, engine.Secrets.List, id)
}

// readerResources implements engine.Resources for reader.
type readerResources struct {
	engine.Resources
	readerNoun[engine.Resources]
}

func (r *reader) Resources() engine.Resources {
	return readerResources{r.remoteEngine.Resources(), nounOf(r, engine.Engine.Resources)}
}

func (r readerResources) List(ctx context.Context, id perdure.SessionID) ([]engine.SessionResource, error) {
	return ask1(ctx, r.readerNoun, engine.Resources.List, id)
}

func (r readerResources) Get(ctx context.Context, id perdure.SessionID, resource string) (engine.SessionResource, error) {
	return ask2(ctx, r.readerNoun, engine.Resources.Get, id, resource)
}
