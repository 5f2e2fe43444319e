package memory

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/store"
)

// directory holds agents and what they use.
type directory struct {
	agents      tree[agent.Agent]
	agentPast   tree[[]agent.Agent] // all versions, the oldest first
	harnesses   tree[agent.Harness]
	harnessPast tree[[]agent.Harness] // likewise
	models      tree[store.Model]
	providers   tree[store.Provider]
	connections tree[store.Connection] // by org, user and provider
	defaults    tree[string]           // ids, by kind of default
}

// The keys of the defaults.
const (
	modelDefault    = "model"
	modelName       = "model name/"     // followed by the org
	providerDefault = "provider/"       // followed by the kind
	providerModel   = "provider model/" // followed by the id of the provider
)

func (v agentStore) Get(id perdure.AgentID) (agent.Agent, bool, error) {
	a, found := v.agents.get(string(id))
	a.Overlay = agent.Fold(a.Overlay) // copies it
	return a, found, nil
}

func (v agentStore) List(filter agent.StatusFilter) ([]agent.Agent, error) {
	return listed(v.agents, func(a *agent.Agent) bool {
		a.Overlay = agent.Fold(a.Overlay)
		return filter.Matches(a.Status)
	}, func(a agent.Agent) (time.Time, string) { return a.CreatedAt, string(a.ID) }), nil
}

// Versions returns the versions of an agent, the newest first.
func (v agentStore) Versions(id perdure.AgentID, limit int) (versions []agent.Agent, err error) {
	past, _ := v.agentPast.get(string(id))
	for _, a := range latest(past, limit) {
		a.Overlay = agent.Fold(a.Overlay)
		versions = append(versions, a)
	}
	return versions, nil
}

// latest iterates over the last limit items, the newest first; 0 means all.
func latest[V any](past []V, limit int) iter.Seq2[int, V] {
	if limit > 0 && limit < len(past) {
		past = past[len(past)-limit:]
	}
	return slices.Backward(past)
}

func (t agentStore) Put(a agent.Agent) (agent.Agent, error) {
	a, err := store.NextAgent(t.Reader().Directory(), a, t.now)
	if err == nil {
		a, err = stored(a)
	}
	if err != nil {
		return agent.Agent{}, err
	}
	past, _ := t.agentPast.get(string(a.ID))
	t.agents, t.agentPast = t.agents.put(string(a.ID), a), t.agentPast.put(string(a.ID), append(slices.Clip(past), a))
	a, _, _ = t.Directory().Agents().Get(a.ID)
	return a, nil
}

func (v harnessStore) Get(id perdure.HarnessID) (agent.Harness, bool, error) {
	h, found := v.harnesses.get(string(id))
	h.Overlay = agent.Fold(h.Overlay)
	return h, found, nil
}

func (v harnessStore) List(filter agent.StatusFilter) ([]agent.Harness, error) {
	return listed(v.harnesses, func(h *agent.Harness) bool {
		h.Overlay = agent.Fold(h.Overlay)
		return filter.Matches(h.Status)
	}, func(h agent.Harness) (time.Time, string) { return h.CreatedAt, string(h.ID) }), nil
}

// Versions returns the versions of a harness, the newest first.
func (v harnessStore) Versions(id perdure.HarnessID, limit int) (versions []agent.Harness, err error) {
	past, _ := v.harnessPast.get(string(id))
	for _, h := range latest(past, limit) {
		h.Overlay = agent.Fold(h.Overlay)
		versions = append(versions, h)
	}
	return versions, nil
}

// Chain returns the chain that ends with a harness.
func (v harnessStore) Chain(leaf perdure.HarnessID) ([]agent.Harness, error) {
	return agent.Chain(leaf, v.Directory().Harnesses().Get)
}

func (t harnessStore) Put(h agent.Harness) (agent.Harness, error) {
	h, err := store.NextHarness(t.Reader().Directory(), h, t.now)
	if err == nil {
		h, err = stored(h)
	}
	if err != nil {
		return agent.Harness{}, err
	}
	past, _ := t.harnessPast.get(string(h.ID))
	t.harnesses, t.harnessPast = t.harnesses.put(string(h.ID), h),
		t.harnessPast.put(string(h.ID), append(slices.Clip(past), h))
	h, _, _ = t.Directory().Harnesses().Get(h.ID)
	return h, nil
}

func (v modelStore) Get(id perdure.ModelID) (store.Model, bool, error) {
	m, found := v.models.get(string(id))
	m.Default = found && v.isDefault(modelDefault, string(id))
	return m, found, nil
}

func (v modelStore) List() ([]store.Model, error) {
	return listed(v.models, func(m *store.Model) bool {
		m.Default = v.isDefault(modelDefault, string(m.ID))
		return true
	}, func(m store.Model) (time.Time, string) { return m.CreatedAt, string(m.ID) }), nil
}

func (v modelStore) Default() (store.Model, bool, error) {
	id, _ := v.defaults.get(modelDefault)
	return v.Directory().Models().Get(perdure.ModelID(id))
}

// DefaultName returns the name of the default model of an org.
func (v modelStore) DefaultName(org string) (string, bool, error) {
	name, found := v.defaults.get(modelName + org)
	return name, found, nil
}

// SetDefaultName sets the name of the default model of an org.
func (t modelStore) SetDefaultName(org, name string) error {
	if err := store.CheckDefaultName(org, name); err != nil {
		return fmt.Errorf("set the default model: %w", err)
	}
	t.setDefault(modelName+org, name)
	return nil
}

func (t modelStore) Put(m store.Model) (store.Model, error) {
	m, err := store.NextModel(t.Reader().Directory(), m, t.now)
	if err == nil {
		t.models = t.models.put(string(m.ID), m)
	}
	return m, err
}

func (t modelStore) Remove(id perdure.ModelID) (bool, error) {
	there := t.models.has(string(id))
	t.models = t.models.remove(string(id))
	if t.isDefault(modelDefault, string(id)) {
		t.defaults = t.defaults.remove(modelDefault)
	}
	return there, nil
}

func (t modelStore) SetDefault(id perdure.ModelID) error {
	switch {
	case id == "":
		t.defaults = t.defaults.remove(modelDefault)
		return nil
	case !t.models.has(string(id)):
		return fmt.Errorf("make model %s the default: %w", id, perdure.NotFound)
	}
	t.defaults = t.defaults.put(modelDefault, string(id))
	return nil
}

func (v providerStore) Get(id perdure.ProviderID) (store.Provider, bool, error) {
	p, found := v.providers.get(string(id))
	if found {
		v.addDefaults(&p)
	}
	return p, found, nil
}

func (v providerStore) List() ([]store.Provider, error) {
	return listed(v.providers, func(p *store.Provider) bool {
		v.addDefaults(p)
		return true
	}, func(p store.Provider) (time.Time, string) { return p.CreatedAt, string(p.ID) }), nil
}

// addDefaults adds what defaults has of a provider, and copies its key.
func (v providerStore) addDefaults(p *store.Provider) {
	p.Sealed, p.Default = clone(p.Sealed), v.isDefault(providerDefault+p.Kind, string(p.ID))
	p.Model, _ = v.defaults.get(providerModel + string(p.ID))
}

func (v providerStore) Default(kind string) (store.Provider, bool, error) {
	id, _ := v.defaults.get(providerDefault + kind)
	return v.Directory().Providers().Get(perdure.ProviderID(id))
}

func (t providerStore) Put(p store.Provider) (store.Provider, error) {
	p, err := store.NextProvider(t.Reader().Directory(), p, t.now)
	if err != nil {
		return store.Provider{}, err
	}
	p.Sealed = clone(p.Sealed)
	t.providers = t.providers.put(string(p.ID), p)
	t.setDefault(providerModel+string(p.ID), p.Model)
	p, _, _ = t.Directory().Providers().Get(p.ID)
	return p, nil
}

// Remove removes a provider that no model uses.
func (t providerStore) Remove(id perdure.ProviderID) (bool, error) {
	p, there := t.providers.get(string(id))
	for _, m := range t.models.from("") {
		if m.Provider == id {
			return false, fmt.Errorf("remove provider %s: %w: model %s uses it: remove that first", id,
				perdure.Conflict, m.ID)
		}
	}
	t.providers = t.providers.remove(string(id))
	if there && t.isDefault(providerDefault+p.Kind, string(id)) {
		t.defaults = t.defaults.remove(providerDefault + p.Kind)
	}
	t.setDefault(providerModel+string(id), "")
	return there, nil
}

func (t providerStore) SetDefault(id perdure.ProviderID) error {
	p, found := t.providers.get(string(id))
	if !found {
		return fmt.Errorf("make provider %s the default: %w", id, perdure.NotFound)
	}
	t.defaults = t.defaults.put(providerDefault+p.Kind, string(id))
	return nil
}

// connectionKey joins an org, a user and a provider of any bytes into one key.
func connectionKey(key store.ConnectionKey) string {
	return requestKey(requestKey(key.Org, key.User), key.Provider)
}

func (v connectionStore) Get(key store.ConnectionKey) (store.Connection, bool, error) {
	c, found := v.connections.get(connectionKey(key))
	c.Sealed, c.Metadata = clone(c.Sealed), clone(c.Metadata)
	return c, found, nil
}

func (v connectionStore) List() ([]store.Connection, error) {
	var found []store.Connection
	for _, c := range v.connections.from("") {
		c.Sealed, c.Metadata = clone(c.Sealed), clone(c.Metadata)
		found = append(found, c)
	}
	slices.SortFunc(found, func(a, b store.Connection) int {
		return cmp.Or(cmp.Compare(a.Org, b.Org), cmp.Compare(a.User, b.User), cmp.Compare(a.Provider, b.Provider))
	})
	return found, nil
}

func (t connectionStore) Put(c store.Connection) (store.Connection, error) {
	c, err := store.NextConnection(t.Reader().Directory(), c, t.now)
	if err != nil {
		return store.Connection{}, err
	}
	c.Sealed, c.Metadata = clone(c.Sealed), clone(c.Metadata)
	t.connections = t.connections.put(connectionKey(c.Key()), c)
	c, _, _ = t.Directory().Connections().Get(c.Key())
	return c, nil
}

func (t connectionStore) Remove(key store.ConnectionKey) (bool, error) {
	at := connectionKey(key)
	there := t.connections.has(at)
	t.connections = t.connections.remove(at)
	return there, nil
}

// setDefault stores a text under a key; empty: nothing is stored there any more.
func (t *tx) setDefault(key, text string) {
	if text == "" {
		t.defaults = t.defaults.remove(key)
		return
	}
	t.defaults = t.defaults.put(key, text)
}

// isDefault reports whether an id is the default stored under key.
func (v *tx) isDefault(key, id string) bool {
	is, _ := v.defaults.get(key)
	return is == id
}

// listed returns the rows for which wanted is true, by creation, then by id. wanted may change its
// copy.
func listed[V any](rows tree[V], wanted func(*V) bool, order func(V) (time.Time, string)) []V {
	var found []V
	for _, v := range rows.from("") {
		if wanted(&v) {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, func(a, b V) int {
		madeA, idA := order(a)
		madeB, idB := order(b)
		return cmp.Or(madeA.Compare(madeB), cmp.Compare(idA, idB))
	})
	return found
}
