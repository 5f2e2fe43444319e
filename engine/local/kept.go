package local

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect"
	"github.com/perdure/perdure/internal/sessionport"
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
		kept, err = keptNamed(r, id)
		return err
	})
}

// keptNamed returns the kept agent of an id, or the one that is not deleted and has a name. NotFound: there is none. Conflict: there are several.
func keptNamed(r store.Reader, id string) (agent.Agent, error) {
	kept, found, err := r.Agent(perdure.AgentID(id))
	if err != nil || found {
		return kept, err
	}
	named, err := keptOf(r, id)
	switch {
	case err != nil:
		return agent.Agent{}, err
	case len(named) == 0:
		return agent.Agent{}, fmt.Errorf("agent %.80q: %w", id, perdure.NotFound)
	case len(named) > 1:
		return agent.Agent{}, fmt.Errorf("%w: %d agents are called %.80q: name one by its id, such as %s", perdure.Conflict, len(named), id, named[0].ID)
	}
	return named[0], nil
}

// keptOf lists the kept agents of a name that are not deleted.
func keptOf(r store.Reader, name string) ([]agent.Agent, error) {
	all, err := r.Agents(agent.StatusFilter{All: true})
	return slices.DeleteFunc(all, func(a agent.Agent) bool { return a.Name != name || a.Status == agent.Deleted }), err
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
	var put agent.Agent
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		put, err = putAgent(ctx, tx, w)
		return err
	})
	if err != nil {
		return engine.AgentEntry{}, fmt.Errorf("put agent %.80q: %w", w.Name, err)
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

// putAgent is the commit of a write. One that changes nothing writes nothing.
func putAgent(ctx context.Context, tx store.Tx, w engine.AgentWrite) (agent.Agent, error) {
	named, err := keptOf(tx, w.Name)
	if byID, found, failed := tx.Agent(perdure.AgentID(w.Name)); found || failed != nil {
		named, err = []agent.Agent{byID}, failed
	}
	switch {
	case err != nil:
		return agent.Agent{}, err
	case len(named) > 1:
		return agent.Agent{}, fmt.Errorf("%w: there are %d of this name: name one by its id, such as %s", perdure.Conflict, len(named), named[0].ID)
	case len(named) == 0 && w.Version != 0:
		return agent.Agent{}, fmt.Errorf("%w, and version %d of it was read", perdure.NotFound, w.Version)
	case len(named) == 0:
		return addAgent(ctx, tx, w)
	}
	next := named[0]
	next.Harness, next.Overlay = w.Harness, w.Overlay
	same := named[0].Harness == w.Harness && sameLayer(named[0].Overlay, w.Overlay) && named[0].Status != agent.Deleted
	if same && (w.Version == next.Version || w.ID == next.ID && next.Version == 1) { // or it was made by this write before
		return named[0], nil
	}
	next.Version = w.Version
	return sessionport.PutAgent(ctx, tx, next)
}

// addAgent makes an agent. The names are compared once the directory is written, which nobody else does meanwhile.
func addAgent(ctx context.Context, tx store.Tx, w engine.AgentWrite) (agent.Agent, error) {
	if _, err := perdure.ParseID[perdure.AgentID](w.Name); err == nil {
		return agent.Agent{}, fmt.Errorf("agent %s: %w", w.Name, perdure.NotFound)
	}
	if err := engine.CheckAgentName(w.Name); err != nil {
		return agent.Agent{}, err
	}
	put, err := sessionport.PutAgent(ctx, tx, agent.Agent{ID: w.ID, Name: w.Name, Harness: w.Harness, Overlay: w.Overlay})
	if err != nil {
		return agent.Agent{}, err
	}
	named, err := keptOf(tx, w.Name)
	if err == nil && len(named) > 1 {
		err = fmt.Errorf("%w: somebody else made an agent of this name meanwhile: read it", perdure.Conflict)
	}
	return put, err
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
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		kept, err := keptNamed(tx, id)
		switch {
		case err != nil:
			return err
		case kept.Status == agent.Deleted:
			return fmt.Errorf("agent %.80q: %w: it is deleted", id, perdure.NotFound)
		case version != 0 && version != kept.Version:
			return fmt.Errorf("%w: version %d of it was read, and it has version %d: read it again", perdure.Conflict, version, kept.Version)
		}
		kept.Status = agent.Deleted
		_, err = sessionport.PutAgent(ctx, tx, kept)
		return err
	})
	if err != nil {
		return fmt.Errorf("delete agent: %w", err)
	}
	return nil
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
