package app

import (
	"context"

	"github.com/perdure/perdure/engine"
)

// readerAgents implements engine.Agents for reader.
type readerAgents struct {
	engine.Agents
	readerNoun[engine.Agents]
}

func (r *reader) Agents() engine.Agents {
	return readerAgents{r.remoteEngine.Agents(), nounOf(r, engine.Engine.Agents)}
}

func (r readerAgents) List(ctx context.Context) ([]engine.AgentEntry, error) {
	return ask0(ctx, r.readerNoun, engine.Agents.List)
}

func (r readerAgents) Get(ctx context.Context, id string) (engine.AgentEntry, error) {
	return ask1(ctx, r.readerNoun, engine.Agents.Get, id)
}

func (r readerAgents) Effective(ctx context.Context, id string) (engine.EffectiveAgent, error) {
	return ask1(ctx, r.readerNoun, engine.Agents.Effective, id)
}

func (r readerAgents) Versions(ctx context.Context, id string, limit int) ([]engine.AgentEntry, error) {
	return ask2(ctx, r.readerNoun, engine.Agents.Versions, id, limit)
}

// readerHarnesses implements engine.Harnesses for reader.
type readerHarnesses struct {
	engine.Harnesses
	readerNoun[engine.Harnesses]
}

func (r *reader) Harnesses() engine.Harnesses {
	return readerHarnesses{r.remoteEngine.Harnesses(), nounOf(r, engine.Engine.Harnesses)}
}

func (r readerHarnesses) List(ctx context.Context) ([]engine.HarnessEntry, error) {
	return ask0(ctx, r.readerNoun, engine.Harnesses.List)
}

func (r readerHarnesses) Get(ctx context.Context, id string) (engine.HarnessEntry, error) {
	return ask1(ctx, r.readerNoun, engine.Harnesses.Get, id)
}

func (r readerHarnesses) Versions(ctx context.Context, id string, limit int) ([]engine.HarnessEntry, error) {
	return ask2(ctx, r.readerNoun, engine.Harnesses.Versions, id, limit)
}

// readerConnections implements engine.Connections for reader.
type readerConnections struct {
	engine.Connections
	readerNoun[engine.Connections]
}

func (r *reader) Connections() engine.Connections {
	return readerConnections{r.remoteEngine.Connections(), nounOf(r, engine.Engine.Connections)}
}

func (r readerConnections) List(ctx context.Context, user string) ([]engine.Connection, error) {
	return ask1(ctx, r.readerNoun, engine.Connections.List, user)
}

// Test implements engine.Connections. Unlike other reads it has no time limit with the
// holder. Without a holder, this process connects to the server itself.
func (r readerConnections) Test(ctx context.Context, name string) (engine.Connection, error) {
	if r.reader.holderResponds(ctx) {
		return r.reader.remoteEngine.Connections().Test(ctx, name)
	}
	st, err := r.reader.openStore(ctx)
	if err != nil {
		return engine.Connection{}, err
	}
	return st.Connections().Test(ctx, name)
}

// readerProviders implements engine.Providers for reader.
type readerProviders struct {
	engine.Providers
	readerNoun[engine.Providers]
}

func (r *reader) Providers() engine.Providers {
	return readerProviders{r.remoteEngine.Providers(), nounOf(r, engine.Engine.Providers)}
}

func (r readerProviders) List(ctx context.Context) ([]engine.Provider, error) {
	return ask0(ctx, r.readerNoun, engine.Providers.List)
}

func (r readerProviders) Get(ctx context.Context, name string) (engine.Provider, error) {
	return ask1(ctx, r.readerNoun, engine.Providers.Get, name)
}

func (r readerProviders) Models(ctx context.Context) ([]engine.Model, error) {
	return ask0(ctx, r.readerNoun, engine.Providers.Models)
}

func (r readerProviders) DefaultModel(ctx context.Context) (engine.DefaultModel, error) {
	return ask0(ctx, r.readerNoun, engine.Providers.DefaultModel)
}
