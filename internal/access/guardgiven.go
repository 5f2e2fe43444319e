package access

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

// house checks a scope, and whether the principal is of the org that has what belongs to nobody in particular: what the program was
// given, and the directory of the store, whose rows have no org.
func (g *Guard) house(ctx context.Context, s Scope) (_ context.Context, own bool, err error) {
	ctx, p, asks, err := g.enter(ctx, s)
	return ctx, !asks || p.Org == budget.DefaultOrg, err
}

// Agents lists the agents that sessions can be made of.
func (g *Guard) Agents(ctx context.Context) ([]engine.AgentEntry, error) {
	ctx, own, err := g.house(ctx, Read)
	if err != nil || !own {
		return nil, err
	}
	return g.inner.Agents(ctx)
}

// Agent returns an agent. Who may write it may see it, too: that is how they know what they write over.
func (g *Guard) Agent(ctx context.Context, id string) (engine.AgentEntry, error) {
	ctx, own, err := g.house(ctx, readOrAdmin(ctx))
	if err == nil && !own {
		err = nothingNamed("agent", id)
	}
	if err != nil {
		return engine.AgentEntry{}, err
	}
	return g.inner.Agent(ctx, id)
}

// nothingNamed is what an engine says of a name that it does not know.
func nothingNamed(kind, name string) error {
	return fmt.Errorf("%s %.80q: %w", kind, name, perdure.NotFound)
}

// EffectiveAgent is an agent as a session that begins now would have it.
func (g *Guard) EffectiveAgent(ctx context.Context, id string) (engine.EffectiveAgent, error) {
	ctx, own, err := g.house(ctx, Read)
	if err == nil && !own {
		err = fmt.Errorf("effective agent: %w", nothingNamed("agent", id))
	}
	if err != nil {
		return engine.EffectiveAgent{}, err
	}
	return g.inner.EffectiveAgent(ctx, id)
}

// AgentVersions returns an agent as each write left it.
func (g *Guard) AgentVersions(ctx context.Context, id string, limit int) ([]engine.AgentEntry, error) {
	ctx, own, err := g.house(ctx, Read)
	if err == nil && !own {
		err = nothingNamed("agent", id)
	}
	if err != nil {
		return nil, err
	}
	return g.inner.AgentVersions(ctx, id, limit)
}

// PutAgent writes an agent that is kept. What an agent may do is decided by that: it is for administrators, and never for agents.
// The directory has no orgs, so nobody else's can write in it.
func (g *Guard) PutAgent(ctx context.Context, w engine.AgentWrite) (engine.AgentEntry, error) {
	ctx, own, err := g.house(ctx, Admin)
	if err == nil && !own {
		err = nothingNamed("agent", w.Name)
	}
	if err == nil {
		err = g.machine.allow(ctx, w.Overlay.Model, w.Overlay.Metadata)
	}
	if err != nil {
		return engine.AgentEntry{}, err
	}
	return g.inner.PutAgent(ctx, w)
}

// DeleteAgent makes a tombstone of an agent that is kept.
func (g *Guard) DeleteAgent(ctx context.Context, id string, version int64) error {
	ctx, own, err := g.house(ctx, Admin)
	if err == nil && !own {
		err = nothingNamed("agent", id)
	}
	if err != nil {
		return err
	}
	return g.inner.DeleteAgent(ctx, id, version)
}

// StartOf starts a session of an agent of the house.
func (g *Guard) StartOf(ctx context.Context, o engine.AgentOrder) (engine.Session, error) {
	ctx, own, err := g.house(ctx, Write)
	if err == nil && !own {
		err = fmt.Errorf("start a session of %w", nothingNamed("agent", o.Agent))
	}
	if err == nil {
		err = g.machine.allow(ctx, o.Model, o.Metadata)
	}
	if err != nil {
		return engine.Session{}, err
	}
	if other, err := g.foreign(ctx, o.ID); err != nil || other {
		return engine.Session{}, orTaken(err, "session", string(o.ID))
	}
	p, asks := From(ctx)
	s, err := g.inner.StartOf(ctx, o)
	if err == nil && asks && s.Org != p.Org { // it came in between
		return engine.Session{}, taken("session", string(o.ID))
	}
	return s, err
}

// Connections lists the servers whose tools agents may use.
func (g *Guard) Connections(ctx context.Context) ([]engine.Connection, error) {
	ctx, own, err := g.house(ctx, Read)
	if err != nil || !own {
		return nil, err
	}
	return g.inner.Connections(ctx)
}

// TestConnection asks a server anew, which may start it: that is for administrators.
func (g *Guard) TestConnection(ctx context.Context, name string) (engine.Connection, error) {
	ctx, own, err := g.house(ctx, Admin)
	if err == nil && !own {
		err = nothingNamed("connection", name)
	}
	if err != nil {
		return engine.Connection{}, err
	}
	return g.inner.TestConnection(ctx, name)
}

// Providers lists where models are asked.
func (g *Guard) Providers(ctx context.Context) ([]engine.Provider, error) {
	ctx, own, err := g.house(ctx, Read)
	if err != nil || !own {
		return nil, err
	}
	return g.inner.Providers(ctx)
}
