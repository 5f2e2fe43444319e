package sqlstore

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/store"
)

// directoryLock is the lock under which one transaction at a time writes the directory, because the
// rules of a row depend on other rows. A transaction that also reads the directory shares the lock.
// Writes are rare.
const directoryLock = "directory"

// The columns of the directory.
const (
	modelColumns      = `id, provider_id, name, title, version, created_us, updated_us`
	providerColumns   = `id, kind, name, base_url, sealed, version, created_us, updated_us`
	connectionColumns = `org, user_id, provider, sealed, owner_id, metadata, version, created_us, updated_us`
)

// The statements of the directory. A row is replaced only by the next version.
const (
	selectAgent = `SELECT body FROM agent WHERE id = $1`
	listAgents  = `SELECT body FROM agent ORDER BY created_us`
	putAgent    = `INSERT INTO agent (id, version, created_us, body) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET version = excluded.version, body = excluded.body WHERE agent.version = excluded.version - 1`

	putAgentVersion = `INSERT INTO agent_version (id, version, body) VALUES ($1, $2, $3)`
	agentVersions   = `SELECT body FROM agent_version WHERE id = $1 ORDER BY version DESC LIMIT $2`

	selectHarness = `SELECT body FROM harness WHERE id = $1`
	listHarnesses = `SELECT body FROM harness ORDER BY created_us`
	putHarness    = `INSERT INTO harness (id, version, created_us, body) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET version = excluded.version, body = excluded.body WHERE harness.version = excluded.version - 1`

	putHarnessVersion = `INSERT INTO harness_version (id, version, body) VALUES ($1, $2, $3)`
	harnessVersions   = `SELECT body FROM harness_version WHERE id = $1 ORDER BY version DESC LIMIT $2`

	selectModel = `SELECT ` + modelColumns + ` FROM model WHERE id = $1`
	listModels  = `SELECT ` + modelColumns + ` FROM model ORDER BY created_us`
	modelOf     = `SELECT ` + modelColumns + ` FROM model WHERE provider_id = $1 LIMIT 1`
	deleteModel = `DELETE FROM model WHERE id = $1`
	putModel    = `INSERT INTO model (` + modelColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (id) DO UPDATE SET provider_id = excluded.provider_id, name = excluded.name, title = excluded.title,
			version = excluded.version, updated_us = excluded.updated_us WHERE model.version = excluded.version - 1`

	selectProvider = `SELECT ` + providerColumns + ` FROM provider WHERE id = $1`
	listProviders  = `SELECT ` + providerColumns + ` FROM provider ORDER BY created_us`
	deleteProvider = `DELETE FROM provider WHERE id = $1`
	putProvider    = `INSERT INTO provider (` + providerColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, base_url = excluded.base_url, sealed = excluded.sealed,
			version = excluded.version, updated_us = excluded.updated_us WHERE provider.version = excluded.version - 1`

	selectConnection = `SELECT ` + connectionColumns +
		` FROM user_connection WHERE org = $1 AND user_id = $2 AND provider = $3`
	listConnections  = `SELECT ` + connectionColumns + ` FROM user_connection`
	deleteConnection = `DELETE FROM user_connection WHERE org = $1 AND user_id = $2 AND provider = $3`
	putConnection    = `INSERT INTO user_connection (` + connectionColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (org, user_id, provider) DO UPDATE SET sealed = excluded.sealed, owner_id = excluded.owner_id, metadata = excluded.metadata,
			version = excluded.version, updated_us = excluded.updated_us WHERE user_connection.version = excluded.version - 1`

	selectDefault = `SELECT id FROM directory_default WHERE of_what = $1`
	putDefault    = `INSERT INTO directory_default (of_what, id) VALUES ($1, $2) ON CONFLICT (of_what) DO UPDATE SET id = excluded.id`
	deleteDefault = `DELETE FROM directory_default WHERE of_what = $1 AND ($2 = '' OR id = $2)`
)

// The keys of the defaults.
const (
	modelDefault    = "model"
	modelName       = "model name/"     // followed by the org
	providerDefault = "provider/"       // followed by the kind
	providerModel   = "provider model/" // followed by the id of the provider
)

func (tx agentStore) Get(id perdure.AgentID) (agent.Agent, bool, error) {
	a, found, err := readDirectory(tx.Tx, scanBody[agent.Agent], selectAgent, id)
	if err != nil {
		return agent.Agent{}, false, fmt.Errorf("agent %s: %w", id, err)
	}
	return a, found, nil
}

func (tx agentStore) List(filter agent.StatusFilter) ([]agent.Agent, error) {
	found, err := listDirectory(tx.Tx, scanBody[agent.Agent], listAgents)
	if err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	found = slices.DeleteFunc(found, func(a agent.Agent) bool { return !filter.Matches(a.Status) })
	return byAge(found, func(a agent.Agent) (time.Time, string) { return a.CreatedAt, string(a.ID) }), nil
}

// Versions returns an agent as each write left it.
func (tx agentStore) Versions(id perdure.AgentID, limit int) ([]agent.Agent, error) {
	found, err := listDirectory(tx.Tx, scanBody[agent.Agent], agentVersions, id, orAll(limit))
	return wrapped(found, err, "versions of agent %s", id)
}

func (tx agentStore) Put(a agent.Agent) (agent.Agent, error) {
	err := putDirectory(tx.Tx, a, store.NextAgent, func(a agent.Agent) (int64, error) {
		body, err := encode(a)
		if err != nil {
			return 0, fmt.Errorf("%w record: %w", perdure.Invalid, err)
		}
		n, err := tx.exec(putAgent, a.ID, a.Version, micros(a.CreatedAt), body)
		if err == nil && n > 0 {
			_, err = tx.exec(putAgentVersion, a.ID, a.Version, body)
		}
		return n, err
	})
	if err != nil {
		return agent.Agent{}, err
	}
	a, _, err = tx.Directory().Agents().Get(a.ID)
	return a, err
}

func (tx harnessStore) Get(id perdure.HarnessID) (agent.Harness, bool, error) {
	h, found, err := readDirectory(tx.Tx, scanBody[agent.Harness], selectHarness, id)
	if err != nil {
		return agent.Harness{}, false, fmt.Errorf("harness %s: %w", id, err)
	}
	return h, found, nil
}

func (tx harnessStore) List(filter agent.StatusFilter) ([]agent.Harness, error) {
	found, err := listDirectory(tx.Tx, scanBody[agent.Harness], listHarnesses)
	if err != nil {
		return nil, fmt.Errorf("list harnesses: %w", err)
	}
	found = slices.DeleteFunc(found, func(h agent.Harness) bool { return !filter.Matches(h.Status) })
	return byAge(found, func(h agent.Harness) (time.Time, string) { return h.CreatedAt, string(h.ID) }), nil
}

// Versions returns a harness as each write left it.
func (tx harnessStore) Versions(id perdure.HarnessID, limit int) ([]agent.Harness, error) {
	found, err := listDirectory(tx.Tx, scanBody[agent.Harness], harnessVersions, id, orAll(limit))
	return wrapped(found, err, "versions of harness %s", id)
}

// Chain returns the chain that ends with a harness.
func (tx harnessStore) Chain(leaf perdure.HarnessID) ([]agent.Harness, error) {
	return agent.Chain(leaf, tx.Directory().Harnesses().Get)
}

func (tx harnessStore) Put(h agent.Harness) (agent.Harness, error) {
	err := putDirectory(tx.Tx, h, store.NextHarness, func(h agent.Harness) (int64, error) {
		body, err := encode(h)
		if err != nil {
			return 0, fmt.Errorf("%w record: %w", perdure.Invalid, err)
		}
		n, err := tx.exec(putHarness, h.ID, h.Version, micros(h.CreatedAt), body)
		if err == nil && n > 0 {
			_, err = tx.exec(putHarnessVersion, h.ID, h.Version, body)
		}
		return n, err
	})
	if err != nil {
		return agent.Harness{}, err
	}
	h, _, err = tx.Directory().Harnesses().Get(h.ID)
	return h, err
}

func (tx modelStore) Get(id perdure.ModelID) (store.Model, bool, error) {
	m, found, err := readDirectory(tx.Tx, scanModel, selectModel, id)
	if err == nil && found {
		m.Default, err = tx.isDefault(modelDefault, string(id))
	}
	if err != nil {
		return store.Model{}, false, fmt.Errorf("model %s: %w", id, err)
	}
	return m, found, nil
}

func (tx modelStore) List() ([]store.Model, error) {
	found, err := listDirectory(tx.Tx, scanModel, listModels)
	for i := range found {
		if err == nil {
			found[i].Default, err = tx.isDefault(modelDefault, string(found[i].ID))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	return byAge(found, func(m store.Model) (time.Time, string) { return m.CreatedAt, string(m.ID) }), nil
}

func (tx modelStore) Default() (store.Model, bool, error) {
	id, found, err := readDirectory(tx.Tx, name[perdure.ModelID], selectDefault, bytesOf(modelDefault))
	if err != nil || !found {
		return store.Model{}, false, err
	}
	return tx.Directory().Models().Get(id)
}

// DefaultName returns the name of the default model of an org.
func (tx modelStore) DefaultName(org string) (string, bool, error) {
	found, there, err := readDirectory(tx.Tx, name[string], selectDefault, bytesOf(modelName+org))
	if err != nil {
		return "", false, fmt.Errorf("default model: %w", err)
	}
	return found, there, nil
}

// SetDefaultName sets the name of the default model of an org.
func (tx modelStore) SetDefaultName(org, model string) error {
	err := store.CheckDefaultName(org, model)
	if err == nil {
		err = tx.setDefault(modelName+org, model)
	}
	return wrap(err, "set the default model")
}

func (tx modelStore) Put(m store.Model) (store.Model, error) {
	err := putDirectory(tx.Tx, m, store.NextModel, func(m store.Model) (int64, error) {
		return tx.exec(putModel, m.ID, m.Provider, bytesOf(m.Name), bytesOf(m.Title), m.Version, micros(m.CreatedAt),
			micros(m.UpdatedAt))
	})
	if err != nil {
		return store.Model{}, err
	}
	m, _, err = tx.Directory().Models().Get(m.ID)
	return m, err
}

func (tx modelStore) Remove(id perdure.ModelID) (bool, error) {
	err := tx.lock(directoryLock, false)
	var n int64
	if err == nil {
		n, err = tx.exec(deleteModel, id)
	}
	if err == nil {
		_, err = tx.exec(deleteDefault, bytesOf(modelDefault), string(id))
	}
	return wrapped(n > 0, err, "remove model %s", id)
}

func (tx modelStore) SetDefault(id perdure.ModelID) error {
	err := tx.lock(directoryLock, false)
	if err == nil && id == "" {
		_, err = tx.exec(deleteDefault, bytesOf(modelDefault), "")
	}
	if err == nil && id != "" {
		if _, err = one(tx.Tx, scanModel, selectModel, id); err == nil {
			_, err = tx.exec(putDefault, bytesOf(modelDefault), string(id))
		}
	}
	return wrap(err, "make model %s the default", id)
}

func (tx providerStore) Get(id perdure.ProviderID) (store.Provider, bool, error) {
	p, found, err := readDirectory(tx.Tx, scanProvider, selectProvider, id)
	if err == nil && found {
		err = tx.addDefaults(&p)
	}
	if err != nil {
		return store.Provider{}, false, fmt.Errorf("provider %s: %w", id, err)
	}
	return p, found, nil
}

func (tx providerStore) List() ([]store.Provider, error) {
	found, err := listDirectory(tx.Tx, scanProvider, listProviders)
	for i := range found {
		if err == nil {
			err = tx.addDefaults(&found[i])
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list providers: %w", err)
	}
	return byAge(found, func(p store.Provider) (time.Time, string) { return p.CreatedAt, string(p.ID) }), nil
}

// addDefaults adds what directory_default has of a provider.
func (tx providerStore) addDefaults(p *store.Provider) (err error) {
	if p.Default, err = tx.isDefault(providerDefault+p.Kind, string(p.ID)); err == nil {
		p.Model, _, err = readDirectory(tx.Tx, name[string], selectDefault, bytesOf(providerModel+string(p.ID)))
	}
	return err
}

func (tx providerStore) Default(kind string) (store.Provider, bool, error) {
	id, found, err := readDirectory(tx.Tx, name[perdure.ProviderID], selectDefault, bytesOf(providerDefault+kind))
	if err != nil || !found {
		return store.Provider{}, false, err
	}
	return tx.Directory().Providers().Get(id)
}

func (tx providerStore) Put(p store.Provider) (store.Provider, error) {
	err := putDirectory(tx.Tx, p, store.NextProvider, func(p store.Provider) (int64, error) {
		n, err := tx.exec(putProvider, p.ID, bytesOf(p.Kind), bytesOf(p.Name), bytesOf(p.BaseURL), bytesOf(p.Sealed),
			p.Version,
			micros(p.CreatedAt), micros(p.UpdatedAt))
		if err == nil && n > 0 {
			err = tx.setDefault(providerModel+string(p.ID), p.Model)
		}
		return n, err
	})
	if err != nil {
		return store.Provider{}, err
	}
	p, _, err = tx.Directory().Providers().Get(p.ID)
	return p, err
}

// Remove removes a provider that no model uses.
func (tx providerStore) Remove(id perdure.ProviderID) (bool, error) {
	err := tx.lock(directoryLock, false)
	p, found, looked := tx.Directory().Providers().Get(id)
	if err == nil {
		err = looked
	}
	if err == nil {
		m, used, looked := readDirectory(tx.Tx, scanModel, modelOf, id)
		if err = looked; used {
			err = fmt.Errorf("%w: model %s uses it: remove that first", perdure.Conflict, m.ID)
		}
	}
	if err == nil && found {
		if _, err = tx.exec(deleteProvider, id); err == nil {
			_, err = tx.exec(deleteDefault, bytesOf(providerDefault+p.Kind), string(id))
		}
		if err == nil {
			err = tx.setDefault(providerModel+string(id), "")
		}
	}
	return wrapped(found, err, "remove provider %s", id)
}

func (tx providerStore) SetDefault(id perdure.ProviderID) error {
	err := tx.lock(directoryLock, false)
	var p store.Provider
	if err == nil {
		p, err = one(tx.Tx, scanProvider, selectProvider, id)
	}
	if err == nil {
		_, err = tx.exec(putDefault, bytesOf(providerDefault+p.Kind), string(id))
	}
	return wrap(err, "make provider %s the default", id)
}

func (tx connectionStore) Get(key store.ConnectionKey) (store.Connection, bool, error) {
	c, found, err := readDirectory(tx.Tx, scanConnection, selectConnection, key.Org, bytesOf(key.User), bytesOf(key.Provider))
	if err != nil {
		return store.Connection{}, false, fmt.Errorf("connection to %q: %w", key.Provider, err)
	}
	return c, found, nil
}

func (tx connectionStore) List() ([]store.Connection, error) {
	found, err := listDirectory(tx.Tx, scanConnection, listConnections)
	if err != nil {
		return nil, fmt.Errorf("list connections: %w", err)
	}
	slices.SortFunc(found, func(a, b store.Connection) int { // not by a collation of the database
		return cmp.Or(cmp.Compare(a.Org, b.Org), cmp.Compare(a.User, b.User), cmp.Compare(a.Provider, b.Provider))
	})
	return found, nil
}

func (tx connectionStore) Put(c store.Connection) (store.Connection, error) {
	err := putDirectory(tx.Tx, c, store.NextConnection, func(c store.Connection) (int64, error) {
		return tx.exec(putConnection, c.Org, bytesOf(c.User), bytesOf(c.Provider), bytesOf(c.Sealed), bytesOf(c.Owner),
			bytesOf(c.Metadata), c.Version,
			micros(c.CreatedAt), micros(c.UpdatedAt))
	})
	if err != nil {
		return store.Connection{}, err
	}
	c, _, err = tx.Directory().Connections().Get(c.Key())
	return c, err
}

func (tx connectionStore) Remove(key store.ConnectionKey) (bool, error) {
	err := tx.lock(directoryLock, false)
	var n int64
	if err == nil {
		n, err = tx.exec(deleteConnection, key.Org, bytesOf(key.User), bytesOf(key.Provider))
	}
	return wrapped(n > 0, err, "remove connection to %q", key.Provider)
}

// setDefault stores a text under a key; empty: nothing is stored there any more.
func (tx *Tx) setDefault(key, text string) error {
	err := tx.lock(directoryLock, false)
	if err == nil && text == "" {
		_, err = tx.exec(deleteDefault, bytesOf(key), "")
	} else if err == nil {
		_, err = tx.exec(putDefault, bytesOf(key), text)
	}
	return err
}

// isDefault reports whether an id is the default for a key.
func (tx *Tx) isDefault(key, id string) (bool, error) {
	is, found, err := readDirectory(tx, name[string], selectDefault, bytesOf(key))
	return found && is == id, err
}

// readDirectory reads a row of the directory that may be missing.
func readDirectory[T any](tx *Tx, scan func(row) (T, error), query string, args ...any) (T, bool, error) {
	var found T
	err := tx.lock(directoryLock, true)
	if err == nil {
		found, err = one(tx, scan, query, args...)
	}
	if missing(err) {
		return found, false, nil
	}
	return found, err == nil, err
}

// listDirectory reads rows of the directory.
func listDirectory[T any](tx *Tx, scan func(row) (T, error), query string, args ...any) ([]T, error) {
	if err := tx.lock(directoryLock, true); err != nil {
		return nil, err
	}
	return list(tx, scan, query, args...)
}

// putDirectory writes the next version of a row.
func putDirectory[T any](tx *Tx, v T, next func(store.DirectoryReader, T, time.Time) (T, error),
	write func(T) (int64, error)) error {
	if err := tx.lock(directoryLock, false); err != nil {
		return fmt.Errorf("put: %w", err)
	}
	v, err := next(tx.Reader().Directory(), v, tx.Now())
	if err != nil {
		return err
	}
	n, err := write(v)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: it was changed in the meantime: read it again", perdure.Conflict)
	}
	return wrap(err, "put")
}

// byAge sorts rows by creation, then by id.
func byAge[V any](rows []V, order func(V) (time.Time, string)) []V {
	slices.SortFunc(rows, func(a, b V) int {
		madeA, idA := order(a)
		madeB, idB := order(b)
		return cmp.Or(madeA.Compare(madeB), cmp.Compare(idA, idB))
	})
	return rows
}

// scanBody scans a row of one record.
func scanBody[T any](r row) (T, error) {
	var found T
	text, err := content(r)
	if err == nil {
		err = decode(text, &found)
	}
	return found, err
}

func scanModel(r row) (store.Model, error) {
	var m store.Model
	var name, title []byte
	var created, updated int64
	err := r.Scan(&m.ID, &m.Provider, &name, &title, &m.Version, &created, &updated)
	m.Name, m.Title, m.CreatedAt, m.UpdatedAt = string(name), string(title), moment(created), moment(updated)
	return m, err
}

func scanProvider(r row) (store.Provider, error) {
	var p store.Provider
	var kind, name, url, sealed []byte
	var created, updated int64
	err := r.Scan(&p.ID, &kind, &name, &url, &sealed, &p.Version, &created, &updated)
	p.Kind, p.Name, p.BaseURL, p.CreatedAt, p.UpdatedAt = string(kind), string(name), string(url), moment(created),
		moment(updated)
	if len(sealed) > 0 {
		p.Sealed = sealed
	}
	return p, err
}

func scanConnection(r row) (store.Connection, error) {
	var c store.Connection
	var user, provider, owner, metadata []byte
	var created, updated int64
	err := r.Scan(&c.Org, &user, &provider, &c.Sealed, &owner, &metadata, &c.Version, &created, &updated)
	c.User, c.Provider, c.Owner, c.CreatedAt, c.UpdatedAt = string(user), string(provider), string(owner),
		moment(created), moment(updated)
	if len(metadata) > 0 {
		c.Metadata = metadata
	}
	return c, err
}
