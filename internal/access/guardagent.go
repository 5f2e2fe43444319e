package access

import (
	"context"
	"errors"
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

// shared checks a scope, and that the principal's org has the named objects of the default org.
func (g *Guard) shared(ctx context.Context, s Scope, kind, name string) (context.Context, error) {
	ctx, own, err := g.inDefaultOrg(ctx, s)
	if err == nil && !own {
		err = missingName(kind, name)
	}
	return ctx, err
}

// missingName returns the error of the engine for an unknown name.
func missingName(kind, name string) error {
	return fmt.Errorf("%s %.80q: %w", kind, name, perdure.NotFound)
}

// Effective resolves an agent as a session created now would have it.
func (g guardedAgents) Effective(ctx context.Context, id string) (engine.EffectiveAgent, error) {
	ctx, own, err := g.inDefaultOrg(ctx, Read)
	if err == nil && !own {
		err = fmt.Errorf("effective agent: %w", missingName("agent", id))
	}
	if err != nil {
		return engine.EffectiveAgent{}, err
	}
	return g.inner.Agents().Effective(ctx, id)
}

// Put writes a stored agent. Because that decides what the agent may do, it requires the scope
// admin, which agents never have. The directory has no orgs, so only the default org can write to
// it.
func (g guardedAgents) Put(ctx context.Context, w engine.AgentWrite) (engine.AgentEntry, error) {
	ctx, err := g.shared(ctx, Admin, "agent", w.Name)
	if err == nil {
		err = g.machine.allow(ctx, w.Overlay.Model, w.Overlay.Metadata)
	}
	if err != nil {
		return engine.AgentEntry{}, err
	}
	return g.inner.Agents().Put(ctx, w)
}

func (g guardedSessions) CreateFromAgent(ctx context.Context, o engine.AgentSessionRequest) (engine.Session, error) {
	ctx, own, err := g.inDefaultOrg(ctx, Write)
	if err == nil && !own {
		err = fmt.Errorf("start a session of %w", missingName("agent", o.Agent))
	}
	if err == nil {
		err = errors.Join(g.machine.allow(ctx, o.Model, o.Metadata), notOfKey(ctx, o.ID))
	}
	if err != nil {
		return engine.Session{}, err
	}
	if other, err := g.foreign(ctx, o.ID); err != nil || other {
		return engine.Session{}, orTaken(err, "session", string(o.ID))
	}
	p, asks := PrincipalFrom(ctx)
	s, err := g.inner.Sessions().CreateFromAgent(ctx, o)
	if err == nil && asks && s.Org != p.Org { // another org was faster
		return engine.Session{}, idTaken("session", string(o.ID))
	}
	return s, err
}

// Put writes a harness. It requires the scope admin, because a harness decides what agents
// may do.
func (g guardedHarnesses) Put(ctx context.Context, w engine.HarnessWrite) (engine.HarnessEntry, error) {
	ctx, err := g.shared(ctx, Admin, "harness", w.Name)
	if err == nil {
		err = g.machine.allow(ctx, w.Overlay.Model, w.Overlay.Metadata)
	}
	if err != nil {
		return engine.HarnessEntry{}, err
	}
	return g.inner.Harnesses().Put(ctx, w)
}

// readOrAdmin returns the scope for reading an object before it is replaced.
func readOrAdmin(ctx context.Context) Scope {
	if p, _ := PrincipalFrom(ctx); p.May(Admin) {
		return Admin
	}
	return Read
}
