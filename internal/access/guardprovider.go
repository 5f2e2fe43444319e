package access

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

// List lists the providers. Sessions of every org can use them, so every org sees their names; only
// the default org, which manages them, sees where they are.
func (g guardedProviders) List(ctx context.Context) ([]engine.Provider, error) {
	ctx, own, err := g.inDefaultOrg(ctx, Read)
	if err != nil {
		return nil, err
	}
	all, err := g.inner.Providers().List(ctx)
	if !own {
		for i := range all {
			all[i] = nameOnly(all[i])
		}
	}
	return all, err
}

// Get returns a provider, as List shows it.
func (g guardedProviders) Get(ctx context.Context, name string) (engine.Provider, error) {
	ctx, own, err := g.inDefaultOrg(ctx, Read)
	if err != nil {
		return engine.Provider{}, err
	}
	p, err := g.inner.Providers().Get(ctx, name)
	if !own {
		p = nameOnly(p)
	}
	return p, err
}

// nameOnly returns what a caller of another org needs in order to name a model.
func nameOnly(p engine.Provider) engine.Provider {
	return engine.Provider{Name: p.Name, Kind: p.Kind, Ready: p.Ready, Model: p.Model}
}

// Test tests a model of a provider, for the default org.
func (g guardedProviders) Test(ctx context.Context, name, model string) (engine.ProviderTest, error) {
	ctx, err := g.shared(ctx, Admin, "provider", name)
	if err == nil {
		err = g.machine.allow(ctx, name+":"+model, nil)
	}
	if err != nil {
		return engine.ProviderTest{}, err
	}
	return g.inner.Providers().Test(ctx, name, model)
}

// SetDefaultModel sets the default model of the principal's org; for the default org, that of the
// runtime. Root may set it for any org.
func (g guardedProviders) SetDefaultModel(ctx context.Context, org, name string) (engine.DefaultModel, error) {
	ctx, p, asks, err := g.authorizeScope(ctx, Admin)
	if err == nil {
		err = g.machine.allow(ctx, name, nil)
	}
	if err != nil {
		return engine.DefaultModel{}, err
	}
	if asks && p.ID != Root {
		if org != "" && org != p.Org {
			return engine.DefaultModel{}, fmt.Errorf("%w: the token %s belongs to the org %s and cannot set the "+
				"default model of another org", perdure.Denied, p.ID, p.Org)
		}
		if org = p.Org; org == budget.DefaultOrg {
			org = ""
		}
	}
	return g.inner.Providers().SetDefaultModel(ctx, org, name)
}
