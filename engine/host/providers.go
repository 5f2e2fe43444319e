package host

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/connection"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Providers is the part of the program's configuration that callers can read. The zero value is
// empty.
type Providers struct {
	Agents      func() (map[string]ConfiguredAgent, error) // by name, which must not look like an agent id; nil: none
	Connections Connections                                // nil: none
	Providers   []engine.Provider                          // the program's own ones
	// DefaultModel is the model of sessions that name none. It comes before the defaults in the
	// store; empty: those are used.
	DefaultModel string
	// CheckModel checks a model that is to become a default, and returns its name in the form that
	// is stored. nil: every name is accepted.
	CheckModel func(ctx context.Context, name string) (string, error)
	// ByProvider says that Config.Model finds a model by its provider, as package provider does:
	// the name of a stored model then begins with that of its provider.
	ByProvider bool
	// OAuth returns the services at which users authorize their connections. nil: there are none.
	OAuth func() (OAuthProviders, error)
}

// OAuthProviders are the services at which users authorize their connections by OAuth 2.0.
type OAuthProviders = connection.Providers

// OAuthProvider is a service at which users authorize.
type OAuthProvider = connection.Provider

// Connections lists the servers whose tools agents may use, and connects to them. It is safe for
// concurrent use.
type Connections interface {
	// List returns the connections in the order of their names. It contacts no server.
	List(ctx context.Context) ([]engine.Connection, error)
	// Test connects to a server again and returns the result. It may use the accounts of the acting
	// user, for instance for a server that lists its tools only for them; nothing of a token may be
	// returned or stored. NotFound: no such connection.
	Test(ctx context.Context, name string, of tool.Ports) (engine.Connection, error)
}

// ConfiguredAgent is an agent from the program's configuration.
type ConfiguredAgent struct {
	Description string
	Agent       perdure.Agent
}

func (g Providers) agents() (map[string]ConfiguredAgent, error) {
	if g.Agents == nil {
		return nil, nil
	}
	return g.Agents()
}

// List lists the configured agents, then the stored ones.
func (e hostAgents) List(ctx context.Context) (found []engine.AgentEntry, err error) {
	given, err := e.cfg.Catalogue.Providers.agents()
	if err != nil {
		return nil, fmt.Errorf("agents: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		found = append(found, configuredEntry(name, given[name]))
	}
	kept, err := store.Read(ctx, e.cfg.Store, agents().all)
	if err != nil {
		return nil, err
	}
	return appendStored(found, kept)
}

// appendStored appends stored agents to a list.
func appendStored(found []engine.AgentEntry, kept []agent.Agent) ([]engine.AgentEntry, error) {
	for _, one := range kept {
		entry, err := storedEntry(one)
		if err != nil {
			return nil, err
		}
		found = append(found, entry)
	}
	return found, nil
}

func configuredEntry(name string, g ConfiguredAgent) engine.AgentEntry {
	return engine.AgentEntry{
		ID: name, Name: name, Source: engine.AgentFromConfig, Description: g.Description, Status: string(agent.Active),
	}
}

func storedEntry(a agent.Agent) (engine.AgentEntry, error) {
	overlay, err := json.Marshal(a.Overlay)
	return engine.AgentEntry{
		ID: string(a.ID), Name: a.Name, Source: engine.AgentFromStore, Harness: a.Harness, Overlay: overlay,
		Description: a.Overlay.Description,
		Status:      string(a.Status), Version: a.Version, By: a.By,
		CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt,
	}, err
}

func (e hostAgents) Get(ctx context.Context, id string) (engine.AgentEntry, error) {
	given, kept, err := e.findAgent(ctx, id)
	switch {
	case err != nil:
		return engine.AgentEntry{}, err
	case given != nil:
		return configuredEntry(id, *given), nil
	}
	return storedEntry(kept)
}

// Effective resolves an agent as a session created now would have it.
func (e hostAgents) Effective(ctx context.Context, id string) (engine.EffectiveAgent, error) {
	made, err := e.resolveAgentOrder(ctx, engine.AgentSessionRequest{Agent: id})
	if err != nil {
		return engine.EffectiveAgent{}, fmt.Errorf("effective agent: %w", err)
	}
	if made.agent.Model == "" {
		found, err := e.Providers().DefaultModel(ctx)
		if err != nil {
			return engine.EffectiveAgent{}, fmt.Errorf("effective agent: %w", err)
		}
		made.agent.Model = found.Name
	}
	effective := engine.EffectiveAgent{Agent: engine.AgentSettings(made.agent), Files: []string{}}
	for _, f := range made.files {
		effective.Files = append(effective.Files, f.Path)
	}
	return effective, nil
}
