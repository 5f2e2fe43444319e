package access

import (
	"context"

	"github.com/perdure/perdure/engine"
)

// Harnesses lists harnesses. They are the house's, as agents are.
func (g *Guard) Harnesses(ctx context.Context) ([]engine.HarnessEntry, error) {
	ctx, own, err := g.house(ctx, Read)
	if err != nil || !own {
		return nil, err
	}
	return g.inner.Harnesses(ctx)
}

// Harness returns a harness. Who may write it may see it, too.
func (g *Guard) Harness(ctx context.Context, id string) (engine.HarnessEntry, error) {
	ctx, err := g.harness(ctx, readOrAdmin(ctx), id)
	if err != nil {
		return engine.HarnessEntry{}, err
	}
	return g.inner.Harness(ctx, id)
}

// HarnessVersions returns a harness as each write left it.
func (g *Guard) HarnessVersions(ctx context.Context, id string, limit int) ([]engine.HarnessEntry, error) {
	ctx, err := g.harness(ctx, Read, id)
	if err != nil {
		return nil, err
	}
	return g.inner.HarnessVersions(ctx, id, limit)
}

// PutHarness writes a harness: it says what agents may do, so it is for administrators.
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

// DeleteHarness makes a tombstone of a harness.
func (g *Guard) DeleteHarness(ctx context.Context, id string, version int64) error {
	ctx, err := g.harness(ctx, Admin, id)
	if err != nil {
		return err
	}
	return g.inner.DeleteHarness(ctx, id, version)
}

// harness checks a scope for one that is named.
func (g *Guard) harness(ctx context.Context, s Scope, id string) (context.Context, error) {
	ctx, own, err := g.house(ctx, s)
	if err == nil && !own {
		err = nothingNamed("harness", id)
	}
	return ctx, err
}

// readOrAdmin is the scope for what is read before it is written over.
func readOrAdmin(ctx context.Context) Scope {
	if p, _ := From(ctx); p.May(Admin) {
		return Admin
	}
	return Read
}
