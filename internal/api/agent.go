package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
)

// OfAgent is the path of an agent.
type OfAgent struct {
	ID string `path:"agent" example:"helper" doc:"The id of an agent that is kept, or a name: of one that the program was given, else of one that is kept and not deleted."`
}

type oneAgent struct{ Body engine.AgentEntry }

type effectiveAgent struct{ Body engine.EffectiveAgent }

// newAgent is the body of an agent's write: its overlay, and what that stands on.
type newAgent struct {
	ID      perdure.AgentID   `json:"id,omitempty" doc:"Of one that is new, for callers that mint ids."`
	Harness perdure.HarnessID `json:"harness_id,omitempty" doc:"The leaf of the chain of harnesses that it stands on; without it, it stands alone."`
	agent.Overlay
}

// taggedAgent is an agent as a write left it.
type taggedAgent struct{ Body engine.AgentEntry }

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
	read(a, operation{
		id: "list-agent-versions", path: "/v1/agents/{agent}/versions", policy: reads, summary: "List what an agent was, as each write left it, the newest first", errors: missing,
	}, a.listAgentVersions)
	replace(a, operation{
		id: "put-agent", path: "/v1/agents/{agent}", policy: administers, summary: "Keep an agent under a name, or change one that is kept",
		errors: append(missing, http.StatusPreconditionRequired), route: route{own: true, tells: true},
	}, body[newAgent]{example: newAgent{Overlay: agent.Overlay{SystemPrompt: "You read, and say what is new.", Tools: []string{"echo"}}}}, a.putAgent)
	erase(a, operation{
		id: "delete-agent", path: "/v1/agents/{agent}", policy: administers, summary: "Make a tombstone of an agent that is kept; turns that need it stop",
		errors: missing, route: route{own: true},
	}, a.deleteAgent)
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

func (a *API) listAgentVersions(ctx context.Context, in *struct {
	OfAgent
	Paged
}) (*page[engine.AgentEntry], error) {
	return walk(a, in.Paged, grown[engine.AgentEntry]{
		which: whose(ctx) + "versions of agent " + in.ID,
		all:   func() ([]engine.AgentEntry, error) { return a.cfg.Engine.AgentVersions(ctx, in.ID, 0) },
		match: func(engine.AgentEntry) bool { return true },
		id:    func(one engine.AgentEntry) string { return strconv.FormatInt(one.Version, 10) },
	})
}

// putAgent writes an agent.
func (a *API) putAgent(ctx context.Context, in *struct {
	OfAgent
	Conditions
}, b newAgent) (*taggedAgent, error) {
	if err := b.Check(); err != nil {
		return nil, wrongAgent(err)
	}
	w := engine.AgentWrite{Name: in.ID, ID: b.ID, Harness: b.Harness, Overlay: b.Overlay}
	if w.ID == "" {
		w.ID = newID[perdure.AgentID](ctx)
	}
	put, err := a.keptAgents().put(ctx, putting[engine.AgentEntry]{name: in.ID, id: string(w.ID), Conditions: in.Conditions, put: func(version int64) (engine.AgentEntry, error) {
		w.Version = version
		return a.cfg.Engine.PutAgent(ctx, w)
	}})
	return &taggedAgent{put}, err
}

func (a *API) keptAgents() keeper[engine.AgentEntry] {
	return keeper[engine.AgentEntry]{
		noun: "agent", now: a.cfg.Engine.Agent, isID: isID[perdure.AgentID],
		head: func(one engine.AgentEntry) keptHead {
			return keptHead{id: one.ID, version: one.Version, kept: one.Source == engine.AgentKept, deleted: one.Status == string(agent.Deleted), written: one.UpdatedAt}
		},
	}
}

// wrongAgent names the fields of an overlay in which something is wrong.
func wrongAgent(err error) error {
	faults, wrong := []error{err}, fieldErrors{}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		faults = all.Unwrap()
	}
	for _, fault := range faults {
		field := ""
		if named := (*agent.FieldError)(nil); errors.As(fault, &named) {
			field = "/" + named.Field
		}
		wrong = append(wrong, FieldError{Field: field, Message: cut(fault.Error(), 300)})
	}
	return wrong
}

// deleteAgent makes a tombstone of an agent.
func (a *API) deleteAgent(ctx context.Context, in *struct {
	OfAgent
	IfMatch string `header:"If-Match" doc:"Only if it still has this ETag; * is any."`
}) (*nothing, error) {
	return a.keptAgents().erase(ctx, erasing{name: in.ID, ifMatch: in.IfMatch, erase: func(version int64) error { return a.cfg.Engine.DeleteAgent(ctx, in.ID, version) }})
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
