package access

import (
	"context"

	"github.com/perdure/perdure/engine"
)

// Harnesses lists harnesses. Like agents, they belong to the default org.
func (g *Guard) Harnesses(ctx context.Context) ([]engine.HarnessEntry, error) {
	ctx, own, err := g.inDefaultOrg(ctx, Read)
	if err != nil || !own {
		return nil, err
	}
	return g.inner.Harnesses(ctx)
}

// Harness returns a harness. A principal that may write harnesses may read them too.
func (g *Guard) Harness(ctx context.Context, id string) (engine.HarnessEntry, error) {
	ctx, err := g.harness(ctx, readOrAdmin(ctx), id)
	if err != nil {
		return engine.HarnessEntry{}, err
	}
	return g.inner.Harness(ctx, id)
}

// HarnessVersions returns every stored version of a harness.
func (g *Guard) HarnessVersions(ctx context.Context, id string, limit int) ([]engine.HarnessEntry, error) {
	ctx, err := g.harness(ctx, Read, id)
	if err != nil {
		return nil, err
	}
	return g.inner.HarnessVersions(ctx, id, limit)
}

// PutHarness writes a harness. It requires the scope admin, because a harness decides what agents
// may do.
func (g *Guard) PutHarness(ctx context.Context, w engine.HarnessWrite) (engine.HarnessEntry, error) {
	ctx, err := g.harness(ctx, Admin, w.Name)
	if err == nil {
		err = g.machine.allow(ctx, w.Overlay.Model, w.Overlay.Metadata)
	}
	if err != nil {
		return engine.HarnessEntry{}, err
	}
	return g.inner.PutHarness(ctx, w)
}

// DeleteHarness marks a harness as deleted.
func (g *Guard) DeleteHarness(ctx context.Context, id string, version int64) error {
	ctx, err := g.harness(ctx, Admin, id)
	if err != nil {
		return err
	}
	return g.inner.DeleteHarness(ctx, id, version)
}

// harness checks a scope for a named harness.
func (g *Guard) harness(ctx context.Context, s Scope, id string) (context.Context, error) {
	ctx, own, err := g.inDefaultOrg(ctx, s)
	if err == nil && !own {
		err = missingName("harness", id)
	}
	return ctx, err
}

// readOrAdmin returns the scope for reading an object before it is replaced.
func readOrAdmin(ctx context.Context) Scope {
	if p, _ := PrincipalFrom(ctx); p.May(Admin) {
		return Admin
	}
	return Read
}
