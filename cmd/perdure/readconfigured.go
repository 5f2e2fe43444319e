package main

import (
	"context"

	"github.com/perdure/perdure/engine"
)

// readerAgents implements engine.Agents for reader.
type readerAgents struct {
	engine.Agents
	*reader
}

// Agents implements engine.Engine.
func (r *reader) Agents() engine.Agents { return readerAgents{r.remoteEngine.Agents(), r} }

// List implements engine.Agents.
func (r readerAgents) List(ctx context.Context) ([]engine.AgentEntry, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) ([]engine.AgentEntry,
		error) {
		return eng.Agents().List(ctx)
	})
}

// Get implements engine.Agents.
func (r readerAgents) Get(ctx context.Context, id string) (engine.AgentEntry, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) (engine.AgentEntry,
		error) {
		return eng.Agents().Get(ctx, id)
	})
}

// Effective implements engine.Agents.
func (r readerAgents) Effective(ctx context.Context, id string) (engine.EffectiveAgent, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) (engine.EffectiveAgent, error) {
		return eng.Agents().Effective(ctx, id)
	})
}

// Versions implements engine.Agents.
func (r readerAgents) Versions(ctx context.Context, id string, limit int) ([]engine.AgentEntry, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) ([]engine.AgentEntry, error) {
		return eng.Agents().Versions(ctx, id, limit)
	})
}

// readerHarnesses implements engine.Harnesses for reader.
type readerHarnesses struct {
	engine.Harnesses
	*reader
}

// Harnesses implements engine.Engine.
func (r *reader) Harnesses() engine.Harnesses { return readerHarnesses{r.remoteEngine.Harnesses(), r} }

// List implements engine.Harnesses.
func (r readerHarnesses) List(ctx context.Context) ([]engine.HarnessEntry, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) ([]engine.HarnessEntry,
		error) {
		return eng.Harnesses().List(ctx)
	})
}

// Get implements engine.Harnesses.
func (r readerHarnesses) Get(ctx context.Context, id string) (engine.HarnessEntry, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) (engine.HarnessEntry,
		error) {
		return eng.Harnesses().Get(ctx, id)
	})
}

// Versions implements engine.Harnesses.
func (r readerHarnesses) Versions(ctx context.Context, id string, limit int) ([]engine.HarnessEntry, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) ([]engine.HarnessEntry, error) {
		return eng.Harnesses().Versions(ctx, id, limit)
	})
}

// readerConnections implements engine.Connections for reader.
type readerConnections struct {
	engine.Connections
	*reader
}

// Connections implements engine.Engine.
func (r *reader) Connections() engine.Connections {
	return readerConnections{r.remoteEngine.Connections(), r}
}

// List implements engine.Connections.
func (r readerConnections) List(ctx context.Context) ([]engine.Connection, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) ([]engine.Connection,
		error) {
		return eng.Connections().List(ctx)
	})
}

// Test implements engine.Connections. Unlike other reads it has no time limit with the
// holder. Without a holder, this process connects to the server itself.
func (r readerConnections) Test(ctx context.Context, name string) (engine.Connection, error) {
	if r.holderResponds(ctx) {
		return r.remoteEngine.Connections().Test(ctx, name)
	}
	st, err := r.openStore(ctx)
	if err != nil {
		return engine.Connection{}, err
	}
	return st.Connections().Test(ctx, name)
}

// Providers implements engine.Connections.
func (r readerConnections) Providers(ctx context.Context) ([]engine.Provider, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) ([]engine.Provider,
		error) {
		return eng.Connections().Providers(ctx)
	})
}
