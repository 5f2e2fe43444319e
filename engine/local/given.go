package local

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/store"
)

// Given is what a program was started with and lets callers see. The zero value is nothing.
type Given struct {
	Agents      func() (map[string]GivenAgent, error) // by name, which is no id of a kept one; nil: none
	Connections engine.Connections                    // nil: none
	Providers   []engine.Provider                     // by name
}

// GivenAgent is an agent that a program was given.
type GivenAgent struct {
	Description string
	Agent       perdure.Agent
}

func (g Given) agents() (map[string]GivenAgent, error) {
	if g.Agents == nil {
		return nil, nil
	}
	return g.Agents()
}

// Agents lists the agents that the program was given, and those that are kept.
func (e *Engine) Agents(ctx context.Context) (found []engine.AgentEntry, err error) {
	given, err := e.cfg.Given.agents()
	if err != nil {
		return nil, fmt.Errorf("agents: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		found = append(found, givenEntry(name, given[name]))
	}
	var kept []agent.Agent
	err = e.view(ctx, func(r store.Reader) error {
		kept, err = r.Agents(agent.StatusFilter{All: true})
		return err
	})
	if err != nil {
		return nil, err
	}
	return keptEntries(found, kept)
}

// keptEntries adds kept agents to those that callers see.
func keptEntries(found []engine.AgentEntry, kept []agent.Agent) ([]engine.AgentEntry, error) {
	for _, one := range kept {
		entry, err := keptEntry(one)
		if err != nil {
			return nil, err
		}
		found = append(found, entry)
	}
	return found, nil
}

func givenEntry(name string, g GivenAgent) engine.AgentEntry {
	return engine.AgentEntry{ID: name, Name: name, Source: engine.AgentGiven, Description: g.Description, Status: string(agent.Active)}
}

func keptEntry(a agent.Agent) (engine.AgentEntry, error) {
	overlay, err := json.Marshal(a.Overlay)
	return engine.AgentEntry{
		ID: string(a.ID), Name: a.Name, Source: engine.AgentKept, Harness: a.Harness, Overlay: overlay, Status: string(a.Status), Version: a.Version, By: a.By,
		CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt,
	}, err
}

// Agent returns an agent.
func (e *Engine) Agent(ctx context.Context, id string) (engine.AgentEntry, error) {
	given, kept, err := e.findAgent(ctx, id)
	switch {
	case err != nil:
		return engine.AgentEntry{}, err
	case given != nil:
		return givenEntry(id, *given), nil
	}
	return keptEntry(kept)
}

// EffectiveAgent is an agent as a session that begins now would have it.
func (e *Engine) EffectiveAgent(ctx context.Context, id string) (engine.EffectiveAgent, error) {
	made, err := e.overlaidOf(ctx, engine.AgentOrder{Agent: id})
	if err != nil {
		return engine.EffectiveAgent{}, fmt.Errorf("effective agent: %w", err)
	}
	effective := engine.EffectiveAgent{Agent: engine.AgentSettings(made.agent), Files: []string{}}
	for _, f := range made.files {
		effective.Files = append(effective.Files, f.Path)
	}
	return effective, nil
}

// Connections lists the servers that the program was given.
func (e *Engine) Connections(ctx context.Context) ([]engine.Connection, error) {
	if e.cfg.Given.Connections == nil {
		return nil, nil
	}
	return e.cfg.Given.Connections.Connections(ctx)
}

// TestConnection asks a server anew what it has.
func (e *Engine) TestConnection(ctx context.Context, name string) (engine.Connection, error) {
	if e.cfg.Given.Connections == nil {
		return engine.Connection{}, fmt.Errorf("connection %.80q: %w", name, perdure.NotFound)
	}
	return e.cfg.Given.Connections.TestConnection(ctx, name)
}

// Providers lists where models are asked.
func (e *Engine) Providers(context.Context) ([]engine.Provider, error) {
	return slices.Clone(e.cfg.Given.Providers), nil
}
