package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/provider"
	"github.com/perdure/perdure/store"
)

// List lists the program's own providers and the stored ones, by name. Where both have a name, the
// entry describes the one that is used.
func (e hostProviders) List(ctx context.Context) ([]engine.Provider, error) {
	rows, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]store.Provider, error) {
		return r.Directory().Providers().List()
	})
	if err != nil {
		return nil, fmt.Errorf("list providers: %w", err)
	}
	all := map[string]engine.Provider{}
	for _, own := range e.cfg.Catalogue.Providers.Providers {
		all[own.Name] = own
	}
	for _, row := range rows {
		if engine.CheckProviderName(row.Name) == nil { // others are rows of an embedding program, which models cannot name
			all[row.Name] = e.withStored(row)
		}
	}
	found := make([]engine.Provider, 0, len(all))
	for _, one := range all {
		found = append(found, one)
	}
	slices.SortFunc(found, func(a, b engine.Provider) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// own returns the program's own provider of a name.
func (e hostProviders) own(name string) (engine.Provider, bool) {
	for _, own := range e.cfg.Catalogue.Providers.Providers {
		if own.Name == name {
			return own, true
		}
	}
	return engine.Provider{}, false
}

// withStored describes a stored provider. If the program has a provider of this name with a key
// from the environment, that one is used.
func (e hostProviders) withStored(row store.Provider) engine.Provider {
	shown := engine.Provider{
		Name: row.Name, Kind: row.Kind, BaseURL: row.BaseURL, Source: engine.ProviderFromStore, Ready: true,
	}
	if len(row.Sealed) == 0 && row.BaseURL == "" {
		shown.Ready, shown.Missing = false, "no key is stored, and the server of the provider needs one"
	}
	if own, ok := e.own(row.Name); ok && own.Source == engine.ProviderFromEnvironment {
		shown = own
	}
	shown.HasKey, shown.Model = len(row.Sealed) > 0, row.Model
	shown.Version, shown.UpdatedAt = row.Version, row.UpdatedAt
	return shown
}

func (e hostProviders) Get(ctx context.Context, name string) (engine.Provider, error) {
	all, err := e.List(ctx)
	if err != nil {
		return engine.Provider{}, err
	}
	for _, one := range all {
		if one.Name == name {
			return one, nil
		}
	}
	return engine.Provider{}, fmt.Errorf("provider %.80q: %w", name, perdure.NotFound)
}

// providerNamed returns the stored provider with a name. NotFound: there is none. Conflict: an
// embedding program has stored several.
func providerNamed(r store.Reader, name string) (found store.Provider, err error) {
	all, err := r.Directory().Providers().List()
	if err != nil {
		return found, err
	}
	all = slices.DeleteFunc(all, func(p store.Provider) bool { return p.Name != name })
	switch {
	case name == "" || len(all) == 0:
		return found, fmt.Errorf("provider %.80q: %w", name, perdure.NotFound)
	case len(all) > 1:
		return found, fmt.Errorf("provider %.80q: %w: %d of them have this name", name, perdure.Conflict, len(all))
	}
	return all[0], nil
}

// Put stores a provider. The key is sealed before the transaction, for the row as it was read; a
// row that was changed meanwhile is a Conflict.
func (e hostProviders) Put(ctx context.Context, w engine.ProviderWrite) (engine.Provider, error) {
	fail := func(err error) (engine.Provider, error) {
		return engine.Provider{}, fmt.Errorf("put provider %.80q: %w", w.Name, err)
	}
	if err := e.checkName(w.Name); err != nil {
		return engine.Provider{}, err
	}
	old, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) (store.Provider, error) { return providerNamed(r, w.Name) })
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return fail(err)
	}
	row, key, err := e.changed(old, w)
	if err != nil {
		return fail(err)
	}
	if row.ID != "" && key == keyStays && row.BaseURL == old.BaseURL && row.Model == old.Model {
		return e.withStored(old), nil // nothing changes
	}
	row.ID = cmp.Or(row.ID, core.NewID[perdure.ProviderID]())
	if key == keyGiven {
		if row.Sealed, err = e.ports(e.cfg).SealKey(row.ID, *w.Key); err != nil {
			return fail(err)
		}
		if known := e.cfg.Storage.Secrets.Known; known != nil {
			known.Add(*w.Key)
		}
	}
	var put store.Provider
	err = e.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		put, err = putProvider(ctx, tx, row, key)
		return err
	})
	if err != nil {
		return fail(err)
	}
	return e.withStored(put), nil
}

// The effects of a write on the stored key, as the audit log names them.
const (
	keyStays   = "unchanged"
	keyGiven   = "set"
	keyRemoved = "removed"
)

// checkName refuses a name that cannot be stored.
func (e hostProviders) checkName(name string) error {
	if own, ok := e.own(name); ok && own.Kind == engine.ProviderScripted {
		return fmt.Errorf("%w provider %.80q: the program has it, and it needs no key; use another name",
			perdure.Invalid, name)
	}
	return engine.CheckProviderName(name)
}

// changed returns the row of a write, still without a new key, and what happens to the key.
func (e hostProviders) changed(old store.Provider, w engine.ProviderWrite) (row store.Provider, key string, err error) {
	own, known := e.own(w.Name)
	row = old
	row.Name, row.BaseURL, row.Model = w.Name, strings.TrimRight(w.BaseURL, "/"), w.Model
	row.Kind = cmp.Or(w.Kind, old.Kind, own.Kind)
	key = keyStays
	sent := provider.Provider{Name: row.Name, Kind: row.Kind, BaseURL: row.BaseURL}
	switch {
	case row.Kind == "":
		err = fmt.Errorf("%w kind: it is missing; use %s or %s", perdure.Invalid, engine.ProviderOpenAI,
			engine.ProviderAnthropic)
	case known && row.Kind != own.Kind, old.Kind != "" && row.Kind != old.Kind:
		err = fmt.Errorf("%w kind %.40q: this provider has the kind %s; use another name for another kind",
			perdure.Invalid, row.Kind, cmp.Or(old.Kind, own.Kind))
	case w.Key == nil && len(old.Sealed) > 0 && row.BaseURL != old.BaseURL:
		err = fmt.Errorf("%w URL: the stored key was given for another URL and is not sent to this one; "+
			"give the key again", perdure.Invalid)
	case w.Key == nil && len(old.Sealed) > 0:
		sent.Key = "stored" // only whether there is one matters
	case w.Key != nil && *w.Key == "":
		if row.Sealed = nil; len(old.Sealed) > 0 {
			key = keyRemoved
		}
	case w.Key != nil:
		key, sent.Key = keyGiven, *w.Key
	}
	if err == nil {
		err = sent.Check()
	}
	return row, key, err
}

// putProvider writes a provider and its audit entry. The first provider of a kind is the one whose
// key tools get for that kind (tool.Credentials).
func putProvider(ctx context.Context, tx store.Tx, row store.Provider, key string) (put store.Provider, err error) {
	providers := tx.Directory().Providers()
	if put, err = providers.Put(row); err != nil {
		return put, err
	}
	if _, err = providerNamed(tx.Reader(), row.Name); err != nil { // from here on nobody else writes the directory
		return put, err
	}
	if _, found, err := providers.Default(put.Kind); err != nil {
		return put, err
	} else if !found {
		if err := providers.SetDefault(put.ID); err != nil {
			return put, err
		}
	}
	action := "provider.changed"
	if put.Version == 1 {
		action = "provider.created"
	}
	return put, tx.Audit().Add(store.AuditEntry{
		Actor: store.ActorOf(ctx), Action: action, Subject: string(put.ID),
		Detail: map[string]string{
			"name": put.Name, "kind": put.Kind, "version": strconv.FormatInt(put.Version, 10), "key": key,
			"base_url": store.AuditHash([]byte(put.BaseURL)),
		},
	})
}

func (e hostProviders) Delete(ctx context.Context, name string) error {
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		row, err := providerNamed(tx.Reader(), name)
		if err != nil {
			return err
		}
		if _, err := tx.Directory().Providers().Remove(row.ID); err != nil {
			return err
		}
		return tx.Audit().Add(store.AuditEntry{
			Actor: store.ActorOf(ctx), Action: "provider.deleted", Subject: string(row.ID),
			Detail: map[string]string{"name": row.Name, "kind": row.Kind},
		})
	})
	if err != nil {
		return fmt.Errorf("delete %w", err)
	}
	return nil
}

// Test asks a model through the engine's own model, so that what is tested is what sessions use.
func (e hostProviders) Test(ctx context.Context, name, asked string) (engine.ProviderTest, error) {
	p, err := e.Get(ctx, name)
	if err != nil {
		return engine.ProviderTest{}, err
	}
	asked = cmp.Or(asked, p.Model)
	if asked == "" {
		return engine.ProviderTest{}, fmt.Errorf("%w model: provider %s has no default model; name the model to test",
			perdure.Invalid, name)
	}
	separator := "/"
	if p.Kind == engine.ProviderScripted {
		separator = ":"
	}
	test := engine.ProviderTest{Model: name + separator + asked, Provider: name}
	if !p.Ready && !strings.Contains(asked, "@http") {
		test.Result, test.Variable, test.Why = engine.TestKeyMissing, p.Variable, p.Missing
		return test, nil
	}
	got, err := provider.Test(ctx, e.cfg.Model, test.Model)
	if err != nil {
		return engine.ProviderTest{}, err
	}
	test = TestResult(test, got)
	test.Why = e.cfg.Storage.Secrets.Known.Mask(test.Why)
	return test, nil
}

// TestResult adds to the description of a test what it found out.
func TestResult(test engine.ProviderTest, got provider.Result) engine.ProviderTest {
	test.LatencyMS, test.Tokens = got.Latency.Milliseconds(), got.Tokens
	if test.Result = engine.TestOK; got.Err == nil {
		return test
	}
	test.Result, test.Why = engine.TestUnreachable, got.Err.Error()
	failed := (*model.Error)(nil)
	if !errors.As(got.Err, &failed) {
		return test
	}
	test.Code = string(failed.Code)
	switch failed.Code {
	case model.ModelUnavailable:
		test.Result = engine.TestNoModel
	case model.RateLimited, model.QuotaExhausted, model.UsageLimit:
		test.Result = engine.TestRateLimited
	case model.Unavailable, model.Stalled:
	default:
		test.Result = engine.TestRefused
	}
	return test
}
