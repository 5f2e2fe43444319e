package sessionport

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Engine is the part of the engine that the platform needs: its sessions.
type Engine interface {
	tool.PlatformSessions
	tool.PlatformMessaging
}

// PlatformConfig configures a [Platform]. Store and Engine are required.
type PlatformConfig struct {
	Store        store.Store
	Engine       Engine
	Tools        *tool.Registry    // the engine's tools; nil: none
	Capabilities []tool.Capability // the engine's
	Blueprints   []tool.Blueprint  // the engine's
	BaseURL      string            // URL under which people reach the runtime; empty: none
}

// Platform implements tool.Platform over the store's directory and the engine's sessions (PL1).
// [MustNotExist] does not open it: its holder may do all that it offers, so a host hands it out
// only to code that it trusts. It is safe for concurrent use.
type Platform struct {
	Engine
	cfg PlatformConfig
}

var _ tool.Platform = (*Platform)(nil)

// NewPlatform creates the port. Invalid: Store or Engine is missing.
func NewPlatform(cfg PlatformConfig) (*Platform, error) {
	if cfg.Store == nil || cfg.Engine == nil {
		return nil, fmt.Errorf("new platform: %w configuration: Store and Engine are required", perdure.Invalid)
	}
	if cfg.Tools == nil {
		cfg.Tools = tool.NewRegistry()
	}
	return &Platform{Engine: cfg.Engine, cfg: cfg}, nil
}

// Harnesses lists harnesses.
func (p *Platform) Harnesses(ctx context.Context, filter agent.StatusFilter) ([]agent.Harness, error) {
	return store.Read(ctx, p.cfg.Store, func(r store.Reader) ([]agent.Harness, error) { return r.Directory().Harnesses().List(filter) })
}

// Harness returns a harness.
func (p *Platform) Harness(ctx context.Context, id perdure.HarnessID) (h agent.Harness, found bool, err error) {
	return h, found, p.cfg.Store.View(ctx, func(r store.Reader) error {
		h, found, err = r.Directory().Harnesses().Get(id)
		return err
	})
}

// CreateHarness stores a new harness. The same one again changes nothing and returns the stored
// one.
func (p *Platform) CreateHarness(ctx context.Context, h agent.Harness) (made agent.Harness, err error) {
	h.ID = cmp.Or(h.ID, newID[perdure.HarnessID]())
	h.Version = 0
	err = p.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		old, found, err := tx.Directory().Harnesses().Get(h.ID)
		if err != nil {
			return err
		}
		if found && old.Name == h.Name && old.Parent == h.Parent && sameOverlay(old.Overlay, h.Overlay) {
			made = old
			return nil
		}
		made, err = PutHarness(ctx, tx, h)
		return err
	})
	return made, err
}

// UpdateHarness writes a new version of a harness. Conflict: h is not of the current version.
func (p *Platform) UpdateHarness(ctx context.Context, h agent.Harness) (made agent.Harness, err error) {
	err = p.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if _, found, err := tx.Directory().Harnesses().Get(h.ID); err != nil || !found {
			return cmp.Or(err, fmt.Errorf("harness %s: %w", h.ID, perdure.NotFound))
		}
		made, err = PutHarness(ctx, tx, h)
		return err
	})
	return made, err
}

// DeleteHarness marks a harness as deleted. Its row stays.
func (p *Platform) DeleteHarness(ctx context.Context, id perdure.HarnessID) error {
	return p.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		h, found, err := tx.Directory().Harnesses().Get(id)
		if err != nil || !found || h.Status == agent.Deleted {
			return cmp.Or(err, fmt.Errorf("harness %s: %w", id, perdure.NotFound))
		}
		h.Status = agent.Deleted
		_, err = PutHarness(ctx, tx, h)
		return err
	})
}

// CopyHarness stores a new harness with the same parent and overlay.
func (p *Platform) CopyHarness(ctx context.Context, id perdure.HarnessID, name string) (made agent.Harness, err error) {
	fresh := newID[perdure.HarnessID]()
	err = p.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		h, found, err := tx.Directory().Harnesses().Get(id)
		if err != nil || !found || h.Status == agent.Deleted {
			return cmp.Or(err, fmt.Errorf("harness %s: %w", id, perdure.NotFound))
		}
		made, err = PutHarness(ctx, tx, agent.Harness{
			ID: fresh, Name: name, Parent: h.Parent, Overlay: h.Overlay, Status: agent.Active,
		})
		return err
	})
	return made, err
}

// Agents lists agents.
func (p *Platform) Agents(ctx context.Context, filter agent.StatusFilter) ([]agent.Agent, error) {
	return store.Read(ctx, p.cfg.Store, func(r store.Reader) ([]agent.Agent, error) { return r.Directory().Agents().List(filter) })
}

// Agent returns an agent.
func (p *Platform) Agent(ctx context.Context, id perdure.AgentID) (a agent.Agent, found bool, err error) {
	return a, found, p.cfg.Store.View(ctx, func(r store.Reader) error {
		a, found, err = r.Directory().Agents().Get(id)
		return err
	})
}

// CreateAgent stores a new agent. The same one again changes nothing and returns the stored one.
func (p *Platform) CreateAgent(ctx context.Context, a agent.Agent) (made agent.Agent, err error) {
	a.ID = cmp.Or(a.ID, newID[perdure.AgentID]())
	a.Version = 0
	err = p.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		old, found, err := tx.Directory().Agents().Get(a.ID)
		if err != nil {
			return err
		}
		if found && old.Name == a.Name && old.Harness == a.Harness && sameOverlay(old.Overlay, a.Overlay) {
			made = old
			return nil
		}
		made, err = PutAgent(ctx, tx, a)
		return err
	})
	return made, err
}

// UpdateAgent writes a new version of an agent. Conflict: a is not of the current version.
func (p *Platform) UpdateAgent(ctx context.Context, a agent.Agent) (made agent.Agent, err error) {
	err = p.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if _, found, err := tx.Directory().Agents().Get(a.ID); err != nil || !found {
			return cmp.Or(err, fmt.Errorf("agent %s: %w", a.ID, perdure.NotFound))
		}
		made, err = PutAgent(ctx, tx, a)
		return err
	})
	return made, err
}

// DeleteAgent marks an agent as deleted. Its row stays.
func (p *Platform) DeleteAgent(ctx context.Context, id perdure.AgentID) error {
	return p.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		a, found, err := tx.Directory().Agents().Get(id)
		if err != nil || !found || a.Status == agent.Deleted {
			return cmp.Or(err, fmt.Errorf("agent %s: %w", id, perdure.NotFound))
		}
		a.Status = agent.Deleted
		_, err = PutAgent(ctx, tx, a)
		return err
	})
}

// Capabilities lists the capabilities whose id, name or description contains the search text.
func (p *Platform) Capabilities(_ context.Context, search string) ([]tool.CapabilityEntry, error) {
	all, err := tool.Capabilities(p.cfg.Tools, p.cfg.Capabilities)
	if err != nil {
		return nil, err
	}
	found := []tool.CapabilityEntry{}
	for _, c := range all {
		text := strings.ToLower(c.ID + "\n" + c.Name + "\n" + c.Description)
		if !strings.Contains(text, strings.ToLower(search)) {
			continue
		}
		e := tool.CapabilityEntry{
			ID: c.ID, Name: cmp.Or(c.Name, c.ID), Description: c.Description, Tools: []string{},
			Automatic: c.Activate != nil,
		}
		for _, t := range c.Tools {
			e.Tools = append(e.Tools, t.Spec().Name)
		}
		found = append(found, e)
	}
	return found, nil
}

// Blueprints lists the named agent presets.
func (p *Platform) Blueprints(context.Context) ([]tool.BlueprintEntry, error) {
	found := []tool.BlueprintEntry{}
	for _, b := range p.cfg.Blueprints {
		found = append(found, tool.BlueprintEntry{
			Name: b.Name, Description: b.Description, Schema: slices.Clone(b.Schema),
		})
	}
	return found, nil
}

// BaseURL returns the URL under which people reach the runtime.
func (p *Platform) BaseURL() string { return p.cfg.BaseURL }

// sameOverlay reports whether two overlays have the same content.
func sameOverlay(a, b agent.Overlay) bool {
	a, b = agent.Fold(a), agent.Fold(b)
	textA, errA := json.Marshal(a)
	textB, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(textA, textB)
}
