package host

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// findAgent returns the agent with an id or name: a configured one, otherwise a stored one.
func (e hostAgents) findAgent(ctx context.Context, id string) (given *ConfiguredAgent, kept agent.Agent, err error) {
	all, err := e.cfg.Catalogue.Providers.agents()
	if err != nil {
		return nil, kept, fmt.Errorf("agent %.80q: %w", id, err)
	}
	if one, ok := all[id]; ok {
		return &one, kept, nil
	}
	kept, err = store.Read(ctx, e.cfg.Store, func(r store.Reader) (agent.Agent, error) { return agents().find(r, id) })
	return nil, kept, err
}

func (e hostAgents) Versions(ctx context.Context, id string, limit int) ([]engine.AgentEntry, error) {
	given, kept, err := e.findAgent(ctx, id)
	if err != nil || given != nil {
		return nil, err
	}
	versions, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]agent.Agent, error) {
		return r.Directory().Agents().Versions(kept.ID, max(limit, 0))
	})
	if err != nil {
		return nil, err
	}
	return appendStored(nil, versions)
}

func (e hostAgents) Put(ctx context.Context, w engine.AgentWrite) (engine.AgentEntry, error) {
	if err := e.checkNotConfigured(w.Name); err != nil {
		return engine.AgentEntry{}, fmt.Errorf("put agent: %w", err)
	}
	w.ID = cmp.Or(w.ID, core.NewID[perdure.AgentID]())
	put, err := writeStored(ctx, e.cfg.Store, agents(), storedWrite[agent.Agent]{
		name: w.Name, version: w.Version, id: string(w.ID),
		fresh: func() agent.Agent { return agent.Agent{ID: w.ID, Name: w.Name} },
		same:  func(a agent.Agent) bool { return a.Harness == w.Harness && equalOverlays(a.Overlay, w.Overlay) },
		next: func(a agent.Agent) agent.Agent {
			a.Harness, a.Overlay, a.Version = w.Harness, w.Overlay, w.Version
			return a
		},
	})
	if err != nil {
		return engine.AgentEntry{}, err
	}
	return storedEntry(put)
}

// checkNotConfigured returns Conflict if an agent is configured.
func (e hostAgents) checkNotConfigured(name string) error {
	given, err := e.cfg.Catalogue.Providers.agents()
	if _, ok := given[name]; ok && err == nil {
		err = fmt.Errorf("%w: agent %.80q is configured and cannot be changed here; "+
			"change the program's configuration, which is mcp.json for perdure", perdure.Conflict, name)
	}
	return err
}

// equalOverlays reports whether two overlays are equivalent.
func equalOverlays(a, b agent.Overlay) bool {
	one, err := json.Marshal(agent.Fold(a))
	other, failed := json.Marshal(agent.Fold(b))
	return err == nil && failed == nil && bytes.Equal(one, other)
}

// Delete marks a stored agent as deleted.
func (e hostAgents) Delete(ctx context.Context, id string, version int64) error {
	if err := e.checkNotConfigured(id); err != nil {
		return fmt.Errorf("delete agent: %w", err)
	}
	return deleteStored(ctx, e.cfg.Store, agents(),
		storedDeletion[agent.Agent]{id: id, version: version, gone: func(a agent.Agent) agent.Agent {
			a.Status = agent.Deleted
			return a
		}})
}

// CreateFromAgent creates a session from a stored or configured agent. A repeated order is
// recognized by its own content, not by the agent's current configuration.
func (e hostSessions) CreateFromAgent(ctx context.Context, o engine.AgentSessionRequest) (engine.Session, error) {
	o.ID = cmp.Or(o.ID, core.NewID[perdure.SessionID]())
	order, err := digest(o.ID, "agent", o.Agent, o.Title, o.Labels, o.Model, o.Metadata)
	if err == nil {
		err = hostAgents{e.Host}.startUnlessExists(ctx, o.ID, perdure.Agent{CreateDigest: order}, func() error {
			made, err := hostAgents{e.Host}.resolveAgentOrder(ctx, o)
			if err != nil {
				return err
			}
			made.agent.CreateDigest = order
			return hostAgents{e.Host}.start(ctx, o.ID, made)
		})
	}
	if err != nil {
		return engine.Session{}, fmt.Errorf("start a session of agent %.80q: %w", o.Agent, err)
	}
	return e.Sessions().Get(ctx, o.ID)
}

// resolveAgentOrder resolves an agent order.
func (e hostAgents) resolveAgentOrder(ctx context.Context, o engine.AgentSessionRequest) (made resolvedAgent, err error) {
	given, kept, err := e.findAgent(ctx, o.Agent)
	switch {
	case err != nil:
		return made, err
	case given != nil:
		made.agent = given.Agent
		made.files, err = e.addCapabilities(ctx, &made.agent)
	default:
		made, err = e.resolveOrder(ctx, tool.SessionRequest{Agent: kept.ID})
		made.agent.Name = kept.Name
	}
	if err != nil {
		return made, err
	}
	made.agent.Title = cmp.Or(strings.ToValidUTF8(o.Title, "\ufffd"), made.agent.Title)
	made.agent.Model = cmp.Or(o.Model, made.agent.Model)
	if o.Labels != nil {
		made.agent.Labels = o.Labels
	}
	if len(o.Metadata) > 0 {
		own := maps.Clone(o.Metadata)
		for key, value := range made.agent.Metadata {
			if _, said := own[key]; !said {
				own[key] = value
			}
		}
		made.agent.Metadata = own
	}
	return made, nil
}
