package access

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

// inDefaultOrg checks a scope, and whether the principal belongs to the default org. That org owns
// what has no org of its own: the program's configuration, and the directory of the store.
func (g *Guard) inDefaultOrg(ctx context.Context, s Scope) (_ context.Context, own bool, err error) {
	ctx, p, asks, err := g.authorizeScope(ctx, s)
	return ctx, !asks || p.Org == budget.DefaultOrg, err
}

// Agents lists the agents that sessions can be created from.
func (g *Guard) Agents(ctx context.Context) ([]engine.AgentEntry, error) {
	ctx, own, err := g.inDefaultOrg(ctx, Read)
	if err != nil || !own {
		return nil, err
	}
	return g.inner.Agents(ctx)
}

// Agent returns an agent. A principal that may write agents may read them too, because it must know
// what it replaces.
func (g *Guard) Agent(ctx context.Context, id string) (engine.AgentEntry, error) {
	ctx, own, err := g.inDefaultOrg(ctx, readOrAdmin(ctx))
	if err == nil && !own {
		err = missingName("agent", id)
	}
	if err != nil {
		return engine.AgentEntry{}, err
	}
	return g.inner.Agent(ctx, id)
}

// missingName returns the error of the engine for an unknown name.
func missingName(kind, name string) error {
	return fmt.Errorf("%s %.80q: %w", kind, name, perdure.NotFound)
}

// EffectiveAgent resolves an agent as a session created now would have it.
func (g *Guard) EffectiveAgent(ctx context.Context, id string) (engine.EffectiveAgent, error) {
	ctx, own, err := g.inDefaultOrg(ctx, Read)
	if err == nil && !own {
		err = fmt.Errorf("effective agent: %w", missingName("agent", id))
	}
	if err != nil {
		return engine.EffectiveAgent{}, err
	}
	return g.inner.EffectiveAgent(ctx, id)
}

// AgentVersions returns every stored version of an agent.
func (g *Guard) AgentVersions(ctx context.Context, id string, limit int) ([]engine.AgentEntry, error) {
	ctx, own, err := g.inDefaultOrg(ctx, Read)
	if err == nil && !own {
		err = missingName("agent", id)
	}
	if err != nil {
		return nil, err
	}
	return g.inner.AgentVersions(ctx, id, limit)
}

// PutAgent writes a stored agent. Because that decides what the agent may do, it requires the scope
// admin, which agents never have. The directory has no orgs, so only the default org can write to
// it.
func (g *Guard) PutAgent(ctx context.Context, w engine.AgentWrite) (engine.AgentEntry, error) {
	ctx, own, err := g.inDefaultOrg(ctx, Admin)
	if err == nil && !own {
		err = missingName("agent", w.Name)
	}
	if err == nil {
		err = g.machine.allow(ctx, w.Overlay.Model, w.Overlay.Metadata)
	}
	if err != nil {
		return engine.AgentEntry{}, err
	}
	return g.inner.PutAgent(ctx, w)
}

// DeleteAgent marks a stored agent as deleted.
func (g *Guard) DeleteAgent(ctx context.Context, id string, version int64) error {
	ctx, own, err := g.inDefaultOrg(ctx, Admin)
	if err == nil && !own {
		err = missingName("agent", id)
	}
	if err != nil {
		return err
	}
	return g.inner.DeleteAgent(ctx, id, version)
}

// StartAgentSession creates a session of an agent.
func (g *Guard) StartAgentSession(ctx context.Context, o engine.AgentSessionRequest) (engine.Session, error) {
	ctx, own, err := g.inDefaultOrg(ctx, Write)
	if err == nil && !own {
		err = fmt.Errorf("start a session of %w", missingName("agent", o.Agent))
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
	p, asks := PrincipalFrom(ctx)
	s, err := g.inner.StartAgentSession(ctx, o)
	if err == nil && asks && s.Org != p.Org { // another org was faster
		return engine.Session{}, idTaken("session", string(o.ID))
	}
	return s, err
}

// Connections lists the servers whose tools agents may use.
func (g *Guard) Connections(ctx context.Context) ([]engine.Connection, error) {
	ctx, own, err := g.inDefaultOrg(ctx, Read)
	if err != nil || !own {
		return nil, err
	}
	return g.inner.Connections(ctx)
}

// TestConnection connects to a server again. It requires the scope admin, because it may start the
// server.
func (g *Guard) TestConnection(ctx context.Context, name string) (engine.Connection, error) {
	ctx, own, err := g.inDefaultOrg(ctx, Admin)
	if err == nil && !own {
		err = missingName("connection", name)
	}
	if err != nil {
		return engine.Connection{}, err
	}
	return g.inner.TestConnection(ctx, name)
}

// Providers lists the configured model providers.
func (g *Guard) Providers(ctx context.Context) ([]engine.Provider, error) {
	ctx, own, err := g.inDefaultOrg(ctx, Read)
	if err != nil || !own {
		return nil, err
	}
	return g.inner.Providers(ctx)
}
