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
	ID string `path:"agent" example:"helper" doc:"The id of a stored agent, or a name. A name matches an agent given in the program's configuration first, then a stored agent that is not deleted."`
}

// newAgent is the body of an agent's write: its overlay, and the harness on which it is based.
type newAgent struct {
	ID      perdure.AgentID   `json:"id,omitempty" doc:"For a new agent: the id, for callers that generate ids."`
	Harness perdure.HarnessID `json:"harness_id,omitempty" doc:"The harness from which the agent inherits. Without it, the agent inherits nothing."`
	agent.Overlay
}

// register registers the operations on agents.
func (a agentHandlers) register() {
	missing := []int{http.StatusNotFound}
	read(a.API, operation{id: "list-agents", path: "/v1/agents", policy: reads, summary: "List agents: those given in the configuration, and stored ones"}, a.listAgents)
	read(a.API, operation{id: "get-agent", path: "/v1/agents/{agent}", policy: reads, summary: "Show an agent", errors: missing},
		func(ctx context.Context, in *OfAgent) (*single[engine.AgentEntry], error) {
			return singleOf(a.cfg.Engine.Agents().Get(ctx, in.ID))
		})
	read(a.API, operation{
		id: "get-effective-agent", path: "/v1/agents/{agent}/effective", policy: reads, summary: "Show an agent merged with its harnesses, as a new session would use it",
		errors: append(missing, http.StatusConflict),
	}, func(ctx context.Context, in *OfAgent) (*single[engine.EffectiveAgent], error) {
		return singleOf(a.cfg.Engine.Agents().Effective(ctx, in.ID))
	})
	read(a.API, operation{
		id: "list-agent-versions", path: "/v1/agents/{agent}/versions", policy: reads, summary: "List the versions of an agent, newest first", errors: missing,
	}, a.listAgentVersions)
	replace(a.API, operation{
		id: "put-agent", path: "/v1/agents/{agent}", policy: administers, summary: "Create or replace a stored agent",
		errors: append(missing, http.StatusPreconditionRequired), route: route{checksConditions: true, returnsResource: true},
	}, body[newAgent]{example: newAgent{Overlay: agent.Overlay{SystemPrompt: "You read, and say what is new.", Tools: []string{"echo"}}}}, a.putAgent)
	erase(a.API, operation{
		id: "delete-agent", path: "/v1/agents/{agent}", policy: administers, summary: "Delete a stored agent, leaving a tombstone; turns that need it fail",
		errors: missing, route: route{checksConditions: true},
	}, a.deleteAgent)
}

func (a agentHandlers) listAgents(ctx context.Context, in *struct {
	Source string `query:"source" enum:"given,kept" doc:"Only agents from this source: the configuration, or the store."`
	Status string `query:"status" enum:"active,archived,deleted" doc:"Only agents with this status."`
	Paged
}) (*page[engine.AgentEntry], error) {
	return pageOfAppended(a.API, in.Paged, appendedList[engine.AgentEntry]{
		name: orgPrefix(ctx) + "agents " + in.Source + " " + in.Status,
		all:  func() ([]engine.AgentEntry, error) { return a.cfg.Engine.Agents().List(ctx) },
		match: func(one engine.AgentEntry) bool {
			return (in.Source == "" || one.Source == in.Source) && (in.Status == "" || one.Status == in.Status)
		},
		id: func(one engine.AgentEntry) string { return one.ID },
	})
}

func (a agentHandlers) listAgentVersions(ctx context.Context, in *struct {
	OfAgent
	Paged
}) (*page[engine.AgentEntry], error) {
	return pageOfAppended(a.API, in.Paged, appendedList[engine.AgentEntry]{
		name:  orgPrefix(ctx) + "versions of agent " + in.ID,
		all:   func() ([]engine.AgentEntry, error) { return a.cfg.Engine.Agents().Versions(ctx, in.ID, 0) },
		match: func(engine.AgentEntry) bool { return true },
		id:    func(one engine.AgentEntry) string { return strconv.FormatInt(one.Version, 10) },
	})
}

// putAgent writes an agent.
func (a agentHandlers) putAgent(ctx context.Context, in *struct {
	OfAgent
	Conditions
}, b newAgent) (*single[engine.AgentEntry], error) {
	if err := b.Check(); err != nil {
		return nil, wrongAgent(err)
	}
	w := engine.AgentWrite{Name: in.ID, ID: b.ID, Harness: b.Harness, Overlay: b.Overlay}
	if w.ID == "" {
		w.ID = newID[perdure.AgentID](ctx)
	}
	put, err := a.storedAgents().put(ctx, putRequest[engine.AgentEntry]{name: in.ID, id: string(w.ID), Conditions: in.Conditions, put: func(version int64) (engine.AgentEntry, error) {
		w.Version = version
		return a.cfg.Engine.Agents().Put(ctx, w)
	}})
	return &single[engine.AgentEntry]{put}, err
}

func (a agentHandlers) storedAgents() resourceHandler[engine.AgentEntry] {
	return resourceHandler[engine.AgentEntry]{
		noun: "agent", current: a.cfg.Engine.Agents().Get, isID: isID[perdure.AgentID],
		head: func(one engine.AgentEntry) storedHead {
			return storedHead{id: one.ID, version: one.Version, stored: one.Source == engine.AgentFromStore, deleted: one.Status == string(agent.Deleted), written: one.UpdatedAt}
		},
	}
}

// wrongAgent names the invalid fields of an overlay.
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

// deleteAgent replaces an agent with a tombstone.
func (a agentHandlers) deleteAgent(ctx context.Context, in *struct {
	OfAgent
	IfMatch string `header:"If-Match" doc:"Only if the agent still has this ETag; * matches any."`
}) (*nothing, error) {
	return a.storedAgents().delete(ctx, deleteRequest{name: in.ID, ifMatch: in.IfMatch, delete: func(version int64) error { return a.cfg.Engine.Agents().Delete(ctx, in.ID, version) }})
}
