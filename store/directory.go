package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/internal/strictjson"
)

// Limits of the fields that identify rows of the directory. Postgres limits index entries to 2,704
// bytes.
const (
	MaxProviderKindBytes = 64       // openai, anthropic …
	MaxOrgBytes          = 63       // of a connection
	MaxUserBytes         = 256      // of a connection, and of its owner
	maxTokenBytes        = 64 << 10 // sealed, of a key or a token
	MaxMetadataBytes     = 16 << 10 // of a connection
	maxTitleBytes        = 1 << 10
)

// Model is a model that sessions may use.
type Model struct {
	ID        perdure.ModelID
	Provider  perdure.ProviderID
	Name      string // the provider's name for it
	Title     string // for people; empty: the name
	Default   bool   // used by sessions that name none; set by Models.SetDefault
	Version   int64  // counts the writes, from 1
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Provider is a service that runs models. Its key is stored sealed only.
type Provider struct {
	ID        perdure.ProviderID
	Kind      string // openai, anthropic …
	Name      string // for people; in names of models, the part before the separator
	BaseURL   string // empty: the provider's own
	Sealed    []byte // the key, sealed for ProviderPlace; empty: none is needed
	Model     string // its default model, as the provider names it; empty: none
	Default   bool   // of its kind; set by Providers.SetDefault
	Version   int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

// ConnectionKey identifies a connection; there is one row for each key.
type ConnectionKey struct {
	Org      string // as in [Session]; empty: the default one
	User     string // of the org
	Provider string // github, google …; any text
}

// Connection is a user's account at another service. Its token is stored sealed only.
type Connection struct {
	Org       string // as in [Session]; empty: the default one
	User      string
	Provider  string          // github, google …; any text
	Sealed    []byte          // the token
	Owner     string          // owner of the account, for cleanups; empty: the user
	Metadata  json.RawMessage // a JSON object without secrets; empty: {}
	Version   int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Key returns the key of the connection.
func (c Connection) Key() ConnectionKey {
	return ConnectionKey{Org: c.Org, User: c.User, Provider: c.Provider}
}

// AgentReader reads agents.
type AgentReader interface {
	// Get returns an agent, even if it is archived or deleted.
	Get(id perdure.AgentID) (a agent.Agent, found bool, err error)
	// List lists agents.
	List(filter agent.StatusFilter) ([]agent.Agent, error)
	// Versions returns an agent as each write left it, the newest first; limit 0 means all. An
	// unknown agent has none.
	Versions(id perdure.AgentID, limit int) ([]agent.Agent, error)
}

// AgentWriter writes agents.
type AgentWriter interface {
	// Put adds or replaces an agent, and keeps the previous version. Also Invalid: its harness
	// does not exist, or its status would go back.
	Put(a agent.Agent) (agent.Agent, error)
}

// HarnessReader reads harnesses.
type HarnessReader interface {
	// Get returns a harness, even if it is archived or deleted.
	Get(id perdure.HarnessID) (h agent.Harness, found bool, err error)
	// List lists harnesses.
	List(filter agent.StatusFilter) ([]agent.Harness, error)
	// Versions returns a harness as each write left it, like AgentVersions.
	Versions(id perdure.HarnessID, limit int) ([]agent.Harness, error)
	// Chain returns the chain that ends with a harness, root first; empty for an unknown
	// one.
	Chain(leaf perdure.HarnessID) ([]agent.Harness, error)
}

// HarnessWriter writes harnesses.
type HarnessWriter interface {
	// Put adds or replaces a harness, and keeps the previous version. Also Invalid: its
	// parent does not exist, its chain is a cycle, its chain or that of a harness below it would be
	// too long, or its status would go back.
	Put(h agent.Harness) (agent.Harness, error)
}

// ModelReader reads models.
type ModelReader interface {
	// Get returns a model.
	Get(id perdure.ModelID) (m Model, found bool, err error)
	// List lists models.
	List() ([]Model, error)
	// Default returns the default model; there is at most one.
	Default() (m Model, found bool, err error)
	// DefaultName returns the name of the model of an org's sessions that name none, as the
	// engine's model knows it; an empty org is the runtime, whose default serves every org without
	// one.
	DefaultName(org string) (name string, found bool, err error)
}

// ModelWriter writes models.
type ModelWriter interface {
	// Put adds or replaces a model; Default is not changed. Also Invalid: its provider does
	// not exist.
	Put(m Model) (Model, error)
	// Remove removes a model and reports whether it existed. If it was the default, there is
	// none afterwards.
	Remove(id perdure.ModelID) (bool, error)
	// SetDefault makes a model the only default; empty: there is none. NotFound: no such
	// model.
	SetDefault(id perdure.ModelID) error
	// SetDefaultName sets the name that DefaultName returns; empty: there is none. It does not
	// change the default of SetDefault. Invalid: org or name is too long, or not plain text.
	SetDefaultName(org, name string) error
}

// ProviderReader reads providers.
type ProviderReader interface {
	// Get returns a provider.
	Get(id perdure.ProviderID) (p Provider, found bool, err error)
	// List lists providers.
	List() ([]Provider, error)
	// Default returns the default provider of a kind; there is at most one.
	Default(kind string) (p Provider, found bool, err error)
}

// ProviderWriter writes providers.
type ProviderWriter interface {
	// Put adds or replaces a provider; Default is not changed. Also Invalid: its kind would
	// change.
	Put(p Provider) (Provider, error)
	// Remove removes a provider and reports whether it existed. Conflict: a model uses it.
	Remove(id perdure.ProviderID) (bool, error)
	// SetDefault makes a provider the default of its kind. NotFound: no such provider.
	SetDefault(id perdure.ProviderID) error
}

// ConnectionReader reads connections.
type ConnectionReader interface {
	// Get returns the connection of a user of an org.
	Get(key ConnectionKey) (c Connection, found bool, err error)
	// List lists the connections of all orgs, by org, user and provider.
	List() ([]Connection, error)
}

// ConnectionWriter writes connections.
type ConnectionWriter interface {
	// Put adds or replaces a connection.
	Put(c Connection) (Connection, error)
	// Remove removes a connection and reports whether it existed.
	Remove(key ConnectionKey) (bool, error)
}

// Check checks a model. Invalid: the error says what is wrong.
func (m Model) Check() error {
	if _, err := perdure.ParseID[perdure.ModelID](string(m.ID)); err != nil {
		return err
	}
	if m.Name == "" || len(m.Name) > maxTitleBytes || len(m.Title) > maxTitleBytes {
		return fmt.Errorf("%w model %s: its name has %d bytes and its title %d: a name needs 1 to %d, a title at "+
			"most as many", perdure.Invalid, m.ID, len(m.Name), len(m.Title), maxTitleBytes)
	}
	return nil
}

// Check checks a provider. Invalid: the error says what is wrong.
func (p Provider) Check() error {
	if _, err := perdure.ParseID[perdure.ProviderID](string(p.ID)); err != nil {
		return err
	}
	switch {
	case p.Kind == "" || len(p.Kind) > MaxProviderKindBytes:
		return fmt.Errorf("%w provider %s: its kind has %d bytes, 1 to %d are allowed", perdure.Invalid, p.ID,
			len(p.Kind), MaxProviderKindBytes)
	case len(p.Name) > maxTitleBytes || len(p.BaseURL) > maxTitleBytes || len(p.Sealed) > maxTokenBytes:
		return fmt.Errorf("%w provider %s: its name, its URL or its key is too long", perdure.Invalid, p.ID)
	case !isModelName(p.Model):
		return fmt.Errorf("%w provider %s: its default model must be plain text of at most %d bytes", perdure.Invalid,
			p.ID, maxTitleBytes)
	}
	return nil
}

// CheckDefaultName checks the arguments of Models.SetDefaultName. Invalid: the error says what is
// wrong. For stores.
func CheckDefaultName(org, name string) error {
	switch {
	case len(org) > MaxOrgBytes || !isModelName(org):
		return fmt.Errorf("%w org: it must be plain text of at most %d bytes", perdure.Invalid, MaxOrgBytes)
	case !isModelName(name):
		return fmt.Errorf("%w model: its name must be plain text of at most %d bytes", perdure.Invalid, maxTitleBytes)
	}
	return nil
}

// isModelName reports whether a text can be stored as the name of a default model.
func isModelName(text string) bool {
	return len(text) <= maxTitleBytes && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// Check checks a connection. Invalid: the error says what is wrong.
func (c Connection) Check() error {
	switch {
	case len(c.Org) > MaxOrgBytes:
		return fmt.Errorf("%w connection: its org has %d bytes, at most %d are allowed", perdure.Invalid, len(c.Org),
			MaxOrgBytes)
	case c.User == "" || len(c.User) > MaxUserBytes || c.Provider == "" || len(c.Provider) > MaxUserBytes ||
		len(c.Owner) > MaxUserBytes:
		return fmt.Errorf("%w connection: user, provider and owner have %d, %d and %d bytes: the first two need 1 to "+
			"%d, the owner at most as many",
			perdure.Invalid, len(c.User), len(c.Provider), len(c.Owner), MaxUserBytes)
	case len(c.Sealed) == 0 || len(c.Sealed) > maxTokenBytes:
		return fmt.Errorf("%w connection to %q: its token has %d bytes", perdure.Invalid, c.Provider, len(c.Sealed))
	case len(c.Metadata) > MaxMetadataBytes:
		return fmt.Errorf("%w connection to %q: its metadata has %d bytes, at most %d are allowed", perdure.Invalid,
			c.Provider, len(c.Metadata), MaxMetadataBytes)
	}
	if _, err := strictjson.Canonical(c.Metadata); len(c.Metadata) > 0 && (err != nil || c.Metadata[0] != '{') {
		return fmt.Errorf("%w connection to %q: its metadata is not a JSON object", perdure.Invalid, c.Provider)
	}
	return nil
}

// NextAgent returns the row that PutAgent stores, checked against the stored one. For stores.
func NextAgent(r DirectoryReader, a agent.Agent, now time.Time) (agent.Agent, error) {
	old, found, err := r.Agents().Get(a.ID)
	if err == nil {
		err = a.Check()
	}
	if err == nil {
		err = follows(found, stamp{old.Version, old.Status}, stamp{a.Version, a.Status})
	}
	if err == nil && a.Harness != "" && a.Harness != old.Harness {
		_, known, looked := r.Harnesses().Get(a.Harness)
		if err = looked; err == nil && !known {
			err = fmt.Errorf("%w: there is no harness %s", perdure.Invalid, a.Harness)
		}
	}
	if err != nil {
		return agent.Agent{}, fmt.Errorf("put agent %s: %w", a.ID, err)
	}
	a.Version, a.CreatedAt, a.UpdatedAt = next(old.Version, old.CreatedAt, now)
	a.Status, a.Overlay = orActive(a.Status), agent.Fold(a.Overlay)
	return a, nil
}

// NextHarness returns the row that PutHarness stores, checked against the stored one. For stores.
func NextHarness(r DirectoryReader, h agent.Harness, now time.Time) (agent.Harness, error) {
	old, found, err := r.Harnesses().Get(h.ID)
	if err == nil {
		err = h.Check()
	}
	if err == nil {
		err = follows(found, stamp{old.Version, old.Status}, stamp{h.Version, h.Status})
	}
	var chain []agent.Harness
	if err == nil {
		chain, err = agent.Chain(h.ID, func(id perdure.HarnessID) (agent.Harness, bool, error) {
			if id == h.ID {
				return h, true, nil
			}
			return r.Harnesses().Get(id)
		})
	}
	if err == nil && found && h.Parent != old.Parent {
		err = checkDepth(r.Harnesses(), h.ID, len(chain))
	}
	if err != nil {
		return agent.Harness{}, fmt.Errorf("put harness %s: %w", h.ID, err)
	}
	h.Version, h.CreatedAt, h.UpdatedAt = next(old.Version, old.CreatedAt, now)
	h.Status, h.Overlay = orActive(h.Status), agent.Fold(h.Overlay)
	return h, nil
}

// checkDepth refuses a harness whose chain has the given length, if with the harnesses below it
// that are not deleted the chain would be too long.
func checkDepth(r HarnessReader, id perdure.HarnessID, length int) error {
	all, err := r.List(agent.StatusFilter{All: true})
	if err != nil {
		return err
	}
	on := map[perdure.HarnessID][]perdure.HarnessID{}
	for _, h := range all {
		if h.Status != agent.Deleted {
			on[h.Parent] = append(on[h.Parent], h.ID)
		}
	}
	for level := on[id]; len(level) > 0; length++ {
		if length == agent.MaxChain {
			return fmt.Errorf("%w parent: with the harnesses below it, its chain has more than %d harnesses",
				perdure.Invalid, agent.MaxChain)
		}
		var next []perdure.HarnessID
		for _, one := range level {
			next = append(next, on[one]...)
		}
		level = next
	}
	return nil
}

// NextModel returns the row that Models.Put stores, checked against the stored one. For stores.
func NextModel(r DirectoryReader, m Model, now time.Time) (Model, error) {
	old, found, err := r.Models().Get(m.ID)
	if err == nil {
		err = m.Check()
	}
	if err == nil {
		err = follows(found, stamp{version: old.Version}, stamp{version: m.Version})
	}
	if err == nil {
		_, known, looked := r.Providers().Get(m.Provider)
		if err = looked; err == nil && !known {
			err = fmt.Errorf("%w: there is no provider %s", perdure.Invalid, m.Provider)
		}
	}
	if err != nil {
		return Model{}, fmt.Errorf("put model %s: %w", m.ID, err)
	}
	m.Version, m.CreatedAt, m.UpdatedAt = next(old.Version, old.CreatedAt, now)
	m.Default = old.Default
	return m, nil
}

// NextProvider returns the row that Providers.Put stores, checked against the stored one. For
// stores.
func NextProvider(r DirectoryReader, p Provider, now time.Time) (Provider, error) {
	old, found, err := r.Providers().Get(p.ID)
	if err == nil {
		err = p.Check()
	}
	if err == nil {
		err = follows(found, stamp{version: old.Version}, stamp{version: p.Version})
	}
	if err == nil && found && old.Kind != p.Kind {
		err = fmt.Errorf("%w: it is of kind %q: add another one of kind %q", perdure.Invalid, old.Kind, p.Kind)
	}
	if err != nil {
		return Provider{}, fmt.Errorf("put provider %s: %w", p.ID, err)
	}
	p.Version, p.CreatedAt, p.UpdatedAt = next(old.Version, old.CreatedAt, now)
	p.Default = old.Default
	return p, nil
}

// NextConnection returns the row that Connections.Put stores, checked against the stored one. For
// stores.
func NextConnection(r DirectoryReader, c Connection, now time.Time) (Connection, error) {
	old, found, err := r.Connections().Get(c.Key())
	if err == nil {
		err = c.Check()
	}
	if err == nil {
		err = follows(found, stamp{version: old.Version}, stamp{version: c.Version})
	}
	if err != nil {
		return Connection{}, fmt.Errorf("put connection to %q: %w", c.Provider, err)
	}
	c.Version, c.CreatedAt, c.UpdatedAt = next(old.Version, old.CreatedAt, now)
	return c, nil
}

// stamp is the part of a row that decides whether a write is allowed.
type stamp struct {
	version int64
	status  agent.Status // empty for rows without a status
}

// follows refuses a write that is not based on the stored row.
func follows(found bool, stored, given stamp) error {
	switch {
	case stored.version != given.version && !found:
		return fmt.Errorf("%w: version %d was read, but it no longer exists", perdure.Conflict, given.version)
	case stored.version != given.version && given.version == 0:
		return fmt.Errorf("%w: it exists already", perdure.Conflict)
	case stored.version != given.version:
		return fmt.Errorf("%w: version %d was read, but the current version is %d: read it again", perdure.Conflict,
			given.version, stored.version)
	case !given.status.Follows(stored.status):
		return fmt.Errorf("%w: it is %s, and cannot become %s", perdure.Invalid, orActive(stored.status),
			orActive(given.status))
	}
	return nil
}

// next returns the fields that a store sets.
func next(version int64, created, now time.Time) (int64, time.Time, time.Time) {
	if version == 0 {
		created = now
	}
	return version + 1, created, now
}

func orActive(s agent.Status) agent.Status {
	if s == "" {
		return agent.Active
	}
	return s
}
