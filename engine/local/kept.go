package local

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
	"github.com/perdure/perdure/internal/effect"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// findAgent returns the agent of an id or a name: one that the program was given, else one that is kept.
func (e *Engine) findAgent(ctx context.Context, id string) (given *GivenAgent, kept agent.Agent, err error) {
	all, err := e.cfg.Given.agents()
	if err != nil {
		return nil, kept, fmt.Errorf("agent %.80q: %w", id, err)
	}
	if one, ok := all[id]; ok {
		return &one, kept, nil
	}
	return nil, kept, e.view(ctx, func(r store.Reader) error {
		kept, err = agents().named(r, id)
		return err
	})
}

// AgentVersions returns an agent as each write left it.
func (e *Engine) AgentVersions(ctx context.Context, id string, limit int) ([]engine.AgentEntry, error) {
	given, kept, err := e.findAgent(ctx, id)
	if err != nil || given != nil {
		return nil, err
	}
	var versions []agent.Agent
	err = e.view(ctx, func(r store.Reader) error {
		versions, err = r.AgentVersions(kept.ID, max(limit, 0))
		return err
	})
	if err != nil {
		return nil, err
	}
	return keptEntries(nil, versions)
}

// PutAgent adds or replaces an agent that is kept.
func (e *Engine) PutAgent(ctx context.Context, w engine.AgentWrite) (engine.AgentEntry, error) {
	if err := e.keeps(w.Name); err != nil {
		return engine.AgentEntry{}, fmt.Errorf("put agent: %w", err)
	}
	if w.ID == "" {
		w.ID = effect.NewID[perdure.AgentID]()
	}
	put, err := write(ctx, e.cfg.Store, agents(), keptWrite[agent.Agent]{
		name: w.Name, version: w.Version, id: string(w.ID),
		fresh: func() agent.Agent { return agent.Agent{ID: w.ID, Name: w.Name} },
		same:  func(a agent.Agent) bool { return a.Harness == w.Harness && sameLayer(a.Overlay, w.Overlay) },
		next: func(a agent.Agent) agent.Agent {
			a.Harness, a.Overlay, a.Version = w.Harness, w.Overlay, w.Version
			return a
		},
	})
	if err != nil {
		return engine.AgentEntry{}, err
	}
	return keptEntry(put)
}

// keeps says whether an agent is none that the program was given.
func (e *Engine) keeps(name string) error {
	given, err := e.cfg.Given.agents()
	if _, ok := given[name]; ok && err == nil {
		err = fmt.Errorf("%w: agent %.80q was given to the program, and is not kept: change it where it was given, which is mcp.json for perdure", perdure.Conflict, name)
	}
	return err
}

// sameLayer reports whether two overlays say the same.
func sameLayer(a, b agent.Overlay) bool {
	one, err := json.Marshal(agent.Fold(a))
	other, failed := json.Marshal(agent.Fold(b))
	return err == nil && failed == nil && bytes.Equal(one, other)
}

// DeleteAgent makes a tombstone of an agent that is kept.
func (e *Engine) DeleteAgent(ctx context.Context, id string, version int64) error {
	if err := e.keeps(id); err != nil {
		return fmt.Errorf("delete agent: %w", err)
	}
	return erase(ctx, e.cfg.Store, agents(), keptErase[agent.Agent]{id: id, version: version, gone: func(a agent.Agent) agent.Agent {
		a.Status = agent.Deleted
		return a
	}})
}

// StartOf starts a session of an agent that is kept or was given. The order is told from others by what it says, and not by what
// its agent is by now.
func (e *Engine) StartOf(ctx context.Context, o engine.AgentOrder) (engine.Session, error) {
	if o.ID == "" {
		o.ID = effect.NewID[perdure.SessionID]()
	}
	order, err := digest(o.ID, "agent", o.Agent, o.Title, o.Labels, o.Model, o.Metadata)
	if err == nil {
		err = e.unlessKnown(ctx, o.ID, perdure.Agent{Order: order}, func() error {
			made, err := e.overlaidOf(ctx, o)
			if err != nil {
				return err
			}
			made.agent.Order = order
			return e.start(ctx, o.ID, made)
		})
	}
	if err != nil {
		return engine.Session{}, fmt.Errorf("start a session of agent %.80q: %w", o.Agent, err)
	}
	return e.Session(ctx, o.ID)
}

// overlaidOf is what an order of an agent comes to.
func (e *Engine) overlaidOf(ctx context.Context, o engine.AgentOrder) (made overlaid, err error) {
	given, kept, err := e.findAgent(ctx, o.Agent)
	switch {
	case err != nil:
		return made, err
	case given != nil:
		made.agent = given.Agent
		made.files, err = e.equip(&made.agent)
	default:
		made, err = e.overlaid(ctx, tool.SessionOrder{Agent: kept.ID})
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
