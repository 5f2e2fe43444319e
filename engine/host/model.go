package host

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/model/provider"
	"github.com/perdure/perdure/store"
)

// providerSource finds the stored providers, and opens their keys.
type providerSource struct {
	store    store.Store
	ports    sessionport.Config
	fallback string // the default model of the program's configuration
}

// ProviderSource returns the stored providers of a store as a source for the models of package
// provider. It reads the store at each request, so that a provider that another process has changed
// is used at once. defaultModel is the model of sessions that name none; empty: the default of
// their org in the store, or else that of the runtime.
func ProviderSource(st store.Store, keys Secrets, defaultModel string) provider.Source {
	return providerSource{
		store: st, fallback: defaultModel,
		ports: sessionport.Config{Store: st, Keys: keys.Keys, NoKeysReason: keys.NoKeys, LogMask: keys.Known},
	}
}

// Provider implements provider.Source.
func (s providerSource) Provider(ctx context.Context, name string) (provider.Provider, error) {
	row, err := store.Read(ctx, s.store, func(r store.Reader) (store.Provider, error) { return providerNamed(r, name) })
	if err != nil {
		return provider.Provider{}, err
	}
	key, err := s.ports.OpenKey(row)
	if err != nil {
		return provider.Provider{}, fmt.Errorf("provider %s: %w: %w", name, provider.KeyUnavailable, err)
	}
	if s.ports.LogMask != nil {
		s.ports.LogMask.Add(key)
	}
	return provider.Provider{
		Name: row.Name, Kind: row.Kind, BaseURL: row.BaseURL, Key: key,
		Version: fmt.Sprintf("%s/%d", row.ID, row.Version),
	}, nil
}

// DefaultModel implements provider.Source.
func (s providerSource) DefaultModel(ctx context.Context, session perdure.SessionID) (string, error) {
	if s.fallback != "" {
		return s.fallback, nil
	}
	return store.Read(ctx, s.store, func(r store.Reader) (string, error) {
		org := ""
		if session != "" {
			row, err := r.Sessions().Get(session)
			if err != nil {
				return "", err
			}
			org = row.Org
		}
		found, err := storedDefault(r, org, true)
		if err == nil && found.Name == "" {
			err = fmt.Errorf("%w: no model is named, and there is no default model", perdure.NotFound)
		}
		return found.Name, err
	})
}

// storedDefault returns the default model of an org in the store: its own, that of the runtime, or
// the default row of the models. With qualified, the name of such a row begins with its provider.
func storedDefault(r store.Reader, org string, qualified bool) (engine.DefaultModel, error) {
	for _, of := range slices.Compact([]string{org, ""}) {
		name, found, err := r.Directory().Models().DefaultName(of)
		if err != nil {
			return engine.DefaultModel{}, err
		}
		if found && of != "" {
			return engine.DefaultModel{Name: name, Source: engine.DefaultFromOrg, Org: of}, nil
		}
		if found {
			return engine.DefaultModel{Name: name, Source: engine.DefaultFromRuntime}, nil
		}
	}
	m, found, err := r.Directory().Models().Default()
	if err != nil || !found {
		return engine.DefaultModel{}, err
	}
	name, err := rowName(r, m, qualified)
	return engine.DefaultModel{Name: name, Source: engine.DefaultFromRuntime}, err
}

// rowName returns the name by which the engine's model knows a stored model.
func rowName(r store.Reader, m store.Model, qualified bool) (string, error) {
	p, found, err := r.Directory().Providers().Get(m.Provider)
	if err != nil || !found || !qualified || engine.CheckProviderName(p.Name) != nil {
		return m.Name, err
	}
	return p.Name + "/" + m.Name, nil
}

// defaultModel returns the model of a session of an org that names none; an empty name: there is
// none.
func (e *Host) defaultModel(r store.Reader, org string) (engine.DefaultModel, error) {
	if name := e.cfg.Catalogue.Providers.DefaultModel; name != "" {
		return engine.DefaultModel{Name: name, Source: engine.DefaultFromConfig}, nil
	}
	return storedDefault(r, org, e.cfg.Catalogue.Providers.ByProvider)
}

func (e hostProviders) DefaultModel(ctx context.Context) (engine.DefaultModel, error) {
	found, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) (engine.DefaultModel, error) {
		return e.defaultModel(r, rowOwner(ctx).Org)
	})
	if err != nil {
		return engine.DefaultModel{}, fmt.Errorf("default model: %w", err)
	}
	return found, nil
}

// SetDefaultModel sets a default. The default org has that of the runtime.
func (e hostProviders) SetDefaultModel(ctx context.Context, org, name string) (engine.DefaultModel, error) {
	if org == budget.DefaultOrg {
		org = ""
	}
	set := engine.DefaultModel{Name: name, Source: engine.DefaultFromRuntime, Org: org}
	var err error
	if org != "" {
		if set.Source = engine.DefaultFromOrg; !orgName().MatchString(org) {
			err = fmt.Errorf("%w org %.40q: it must have 1 to 63 characters of a-z, 0-9, dot, dash and underscore",
				perdure.Invalid, org)
		}
	}
	if check := e.cfg.Catalogue.Providers.CheckModel; err == nil && name != "" && check != nil {
		set.Name, err = check(ctx, name)
	}
	if err == nil {
		err = e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
			if err := tx.Directory().Models().SetDefaultName(org, set.Name); err != nil {
				return err
			}
			return tx.Audit().Add(store.AuditEntry{
				Org: org, Actor: store.ActorOf(ctx), Action: "model.default", Subject: cmp.Or(org, budget.DefaultOrg),
				Detail: map[string]string{"model": store.AuditHash([]byte(set.Name)), "set": fmt.Sprint(set.Name != "")},
			})
		})
	}
	if err != nil {
		return engine.DefaultModel{}, fmt.Errorf("set the default model: %w", err)
	}
	if set.Name == "" {
		set.Source = ""
	}
	return set, nil
}

// Models lists the models that are known by name.
func (e hostProviders) Models(ctx context.Context) ([]engine.Model, error) {
	of, err := e.DefaultModel(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]engine.Model{}
	add := func(name, source string) {
		if _, known := all[name]; name != "" && !known {
			prefix, _, _ := provider.Split(name)
			all[name] = engine.Model{Name: name, Provider: prefix, Source: source, Default: name == of.Name}
		}
	}
	add(of.Name, of.Source)
	providers, err := e.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range providers {
		if p.Model != "" {
			add(p.Name+"/"+p.Model, "provider")
		}
	}
	err = e.view(ctx, func(r store.Reader) error {
		rows, err := r.Directory().Models().List()
		for _, row := range rows {
			if err == nil {
				var name string
				name, err = rowName(r, row, e.cfg.Catalogue.Providers.ByProvider)
				add(name, "store")
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	found := make([]engine.Model, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		found = append(found, all[name])
	}
	return found, nil
}
