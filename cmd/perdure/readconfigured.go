package main

import (
	"context"

	"github.com/perdure/perdure/engine"
)

// Agents implements engine.Agents.
func (r *reader) Agents(ctx context.Context) ([]engine.AgentEntry, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]engine.AgentEntry,
		error) {
		return eng.Agents(ctx)
	})
}

// Agent implements engine.Agents.
func (r *reader) Agent(ctx context.Context, id string) (engine.AgentEntry, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) (engine.AgentEntry,
		error) {
		return eng.Agent(ctx, id)
	})
}

// EffectiveAgent implements engine.Agents.
func (r *reader) EffectiveAgent(ctx context.Context, id string) (engine.EffectiveAgent, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) (engine.EffectiveAgent, error) {
		return eng.EffectiveAgent(ctx, id)
	})
}

// AgentVersions implements engine.Agents.
func (r *reader) AgentVersions(ctx context.Context, id string, limit int) ([]engine.AgentEntry, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]engine.AgentEntry, error) {
		return eng.AgentVersions(ctx, id, limit)
	})
}

// Harnesses implements engine.Harnesses.
func (r *reader) Harnesses(ctx context.Context) ([]engine.HarnessEntry, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]engine.HarnessEntry,
		error) {
		return eng.Harnesses(ctx)
	})
}

// Harness implements engine.Harnesses.
func (r *reader) Harness(ctx context.Context, id string) (engine.HarnessEntry, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) (engine.HarnessEntry,
		error) {
		return eng.Harness(ctx, id)
	})
}

// HarnessVersions implements engine.Harnesses.
func (r *reader) HarnessVersions(ctx context.Context, id string, limit int) ([]engine.HarnessEntry, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]engine.HarnessEntry, error) {
		return eng.HarnessVersions(ctx, id, limit)
	})
}

// Connections implements engine.Connections.
func (r *reader) Connections(ctx context.Context) ([]engine.Connection, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]engine.Connection,
		error) {
		return eng.Connections(ctx)
	})
}

// TestConnection implements engine.Connections. Unlike other reads it has no time limit with the
// holder. Without a holder, this process connects to the server itself.
func (r *reader) TestConnection(ctx context.Context, name string) (engine.Connection, error) {
	if r.holderResponds(ctx) {
		return r.remoteEngine.TestConnection(ctx, name)
	}
	st, err := r.openStore(ctx)
	if err != nil {
		return engine.Connection{}, err
	}
	return st.TestConnection(ctx, name)
}

// Providers implements engine.Providers.
func (r *reader) Providers(ctx context.Context) ([]engine.Provider, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]engine.Provider,
		error) {
		return eng.Providers(ctx)
	})
}
