package api

import (
	"context"
	"net/http"

	"github.com/perdure/perdure/engine"
)

// OfAgent is the path of an agent.
type OfAgent struct {
	ID string `path:"agent" example:"helper" doc:"The id of an agent that is kept, or the name of one that the program was given."`
}

type oneAgent struct{ Body engine.AgentEntry }

type effectiveAgent struct{ Body engine.EffectiveAgent }

// ofConnection is the path of a connection.
type ofConnection struct {
	Name string `path:"connection" example:"tickets" doc:"The connection."`
}

// connectionAct is the body of a connection's test.
type connectionAct struct{}

type oneConnection struct{ Body engine.Connection }

// agentOperations are those about what the program was given.
func (a *API) agentOperations() {
	missing := []int{http.StatusNotFound}
	read(a, operation{id: "list-agents", path: "/v1/agents", policy: reads, summary: "List the agents that the program was given, and those that are kept"}, a.listAgents)
	read(a, operation{id: "get-agent", path: "/v1/agents/{agent}", policy: reads, summary: "Show an agent", errors: missing},
		func(ctx context.Context, in *OfAgent) (*oneAgent, error) {
			one, err := a.cfg.Engine.Agent(ctx, in.ID)
			return &oneAgent{Body: one}, err
		})
	read(a, operation{
		id: "get-effective-agent", path: "/v1/agents/{agent}/effective", policy: reads, summary: "Show an agent as a session that begins now would have it",
		errors: append(missing, http.StatusConflict),
	}, func(ctx context.Context, in *OfAgent) (*effectiveAgent, error) {
		one, err := a.cfg.Engine.EffectiveAgent(ctx, in.ID)
		return &effectiveAgent{Body: one}, err
	})
	read(a, operation{id: "list-connections", path: "/v1/connections", policy: reads, summary: "List the servers whose tools agents may use, by name"}, a.listConnections)
	write(a, operation{
		id: "test-connection", path: "/v1/connections/{connection}/test", policy: administers, summary: "Ask a server anew what it has; it may be started by that", errors: missing,
	}, body[connectionAct]{optional: true}, func(ctx context.Context, in *ofConnection, _ connectionAct) (*oneConnection, error) {
		c, err := a.cfg.Engine.TestConnection(ctx, in.Name)
		return &oneConnection{Body: c}, err
	})
	read(a, operation{id: "list-providers", path: "/v1/providers", policy: reads, summary: "List where models are asked, by name"}, a.listProviders)
}

func (a *API) listAgents(ctx context.Context, in *struct {
	Source string `query:"source" enum:"given,kept" doc:"Only agents that come from there."`
	Status string `query:"status" enum:"active,archived,deleted" doc:"Only agents with this status."`
	Paged
}) (*page[engine.AgentEntry], error) {
	return walk(a, in.Paged, grown[engine.AgentEntry]{
		which: whose(ctx) + "agents " + in.Source + " " + in.Status,
		all:   func() ([]engine.AgentEntry, error) { return a.cfg.Engine.Agents(ctx) },
		match: func(one engine.AgentEntry) bool {
			return (in.Source == "" || one.Source == in.Source) && (in.Status == "" || one.Status == in.Status)
		},
		id: func(one engine.AgentEntry) string { return one.ID },
	})
}

func (a *API) listConnections(ctx context.Context, in *struct{ Paged }) (*page[engine.Connection], error) {
	all, err := a.cfg.Engine.Connections(ctx)
	if err != nil {
		return nil, err
	}
	return sorted(a, in.Paged, ordered[engine.Connection]{which: whose(ctx) + "connections", all: all, key: func(c engine.Connection) string { return c.Name }})
}

func (a *API) listProviders(ctx context.Context, in *struct{ Paged }) (*page[engine.Provider], error) {
	all, err := a.cfg.Engine.Providers(ctx)
	if err != nil {
		return nil, err
	}
	return sorted(a, in.Paged, ordered[engine.Provider]{which: whose(ctx) + "providers", all: all, key: func(p engine.Provider) string { return p.Name }})
}
