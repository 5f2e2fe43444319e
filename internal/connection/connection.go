// Package connection manages the accounts of users at other services: it stores their tokens
// sealed, obtains them by OAuth 2.0 authorizations, and refreshes them before they expire.
//
// It may import the root, store, internal/sessionport, internal/egress and internal/strictjson.
//
// The one thing to know: a refresh token may be valid once. A process therefore marks the row of a
// connection before it asks the provider, and other processes with the same store wait for its
// answer:
//
//	begun ──state──▶ finish ──code──▶ ready ──▶ refreshing ──▶ ready
//	                                                 └─refused─▶ expired
package connection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
)

// reservedPrefix begins the names of users and providers that are the runtime's own.
const reservedPrefix = "perdure:"

// The limits of a connection.
const (
	maxTokenBytes = 32 << 10
	maxHosts      = 50
	maxHostBytes  = 253
	maxAttempts   = 16 // of a write that other writers interrupt
	maxMasked     = 4  // tokens that logs mask: access and refresh token, and those before them
)

// Config configures the connections. Ports is required.
type Config struct {
	// Ports has the store and the keyring.
	Ports sessionport.Config
	// Providers returns the services at which users authorize by OAuth 2.0. nil: there are none.
	Providers func() (Providers, error)
	Log       *slog.Logger // nil: discarded
}

// Connections manages connections. It is safe for concurrent use.
type Connections struct {
	cfg Config

	mu     sync.Mutex
	masked map[store.ConnectionKey][]string // guarded by mu; the tokens that logs mask, the oldest first
}

// New returns connections.
func New(cfg Config) *Connections {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Connections{cfg: cfg, masked: map[store.ConnectionKey][]string{}}
}

// Account is a connection without its token.
type Account struct {
	Key       store.ConnectionKey
	Owner     string // empty: the user
	Details   Details
	CreatedAt time.Time
	UpdatedAt time.Time
}

// accountOf describes a row.
func accountOf(row store.Connection) Account {
	return Account{Key: row.Key(), Owner: row.Owner, Details: detailsOf(row.Metadata), CreatedAt: row.CreatedAt,
		UpdatedAt: row.UpdatedAt}
}

// List lists the connections of a user of an org, by provider. An empty user is every user.
func (c *Connections) List(ctx context.Context, org, user string) (found []Account, err error) {
	err = c.cfg.Ports.Store.View(ctx, func(r store.Reader) error {
		found = nil
		all, err := r.Directory().Connections().List()
		for _, row := range all {
			if row.Org == org && !isReserved(row.User) && (user == "" || row.User == user) {
				found = append(found, accountOf(row))
			}
		}
		return err
	})
	slices.SortFunc(found, func(a, b Account) int {
		return cmp.Or(cmp.Compare(a.Key.Provider, b.Key.Provider), cmp.Compare(a.Key.User, b.Key.User))
	})
	return found, err
}

// Get returns a connection. NotFound: there is none.
func (c *Connections) Get(ctx context.Context, key store.ConnectionKey) (Account, error) {
	row, err := c.row(ctx, key)
	return accountOf(row), err
}

// row reads the row of a connection. NotFound: there is none.
func (c *Connections) row(ctx context.Context, key store.ConnectionKey) (row store.Connection, err error) {
	exists := !isReserved(key.User)
	if exists {
		err = c.cfg.Ports.Store.View(ctx, func(r store.Reader) (err error) {
			row, exists, err = r.Directory().Connections().Get(key)
			return err
		})
	}
	if err == nil && !exists {
		err = perdure.NotFound
	}
	if err != nil {
		return store.Connection{}, fmt.Errorf("connection to %.40q: %w", key.Provider, err)
	}
	return row, nil
}

// Write is a connection with a token that a user gives.
type Write struct {
	Key       store.ConnectionKey
	Token     string
	Owner     string
	Hosts     []string
	ExpiresAt time.Time
}

// Put stores a token that a user gives. Invalid: the error says what is wrong, and does not contain
// the token.
func (c *Connections) Put(ctx context.Context, w Write) (Account, error) {
	if err := w.check(); err != nil {
		return Account{}, err
	}
	sealed, err := c.cfg.Ports.SealToken(w.Key, w.Token)
	if err != nil {
		return Account{}, err
	}
	c.mask(w.Key, w.Token)
	return c.put(ctx, "connection.added", store.Connection{Org: w.Key.Org, User: w.Key.User, Provider: w.Key.Provider, Sealed: sealed,
		Owner: w.Owner, Metadata: Details{Hosts: w.Hosts, ExpiresAt: w.ExpiresAt.UTC()}.into(nil)})
}

// put replaces the row of a connection, whatever its version, and adds the audit entry.
func (c *Connections) put(ctx context.Context, action string, row store.Connection) (made Account, err error) {
	for range maxAttempts {
		err = c.cfg.Ports.Store.InTx(ctx, func(tx store.Tx) error {
			old, _, err := tx.Directory().Connections().Get(row.Key())
			if err != nil {
				return err
			}
			fresh, details := row, detailsOf(row.Metadata)
			details.ConnectedAt = tx.Now().UTC()
			fresh.Version, fresh.Metadata = old.Version, details.into(row.Metadata)
			stored, err := tx.Directory().Connections().Put(fresh)
			if err != nil {
				return err
			}
			made = accountOf(stored)
			return addAudit(ctx, tx, row.Key(), action)
		})
		if !errors.Is(err, perdure.Conflict) {
			break
		}
	}
	return made, err
}

// Remove removes a connection. NotFound: there is none.
func (c *Connections) Remove(ctx context.Context, key store.ConnectionKey) error {
	err := c.cfg.Ports.Store.InTx(ctx, func(tx store.Tx) error {
		existed, err := false, error(nil)
		if !isReserved(key.User) {
			existed, err = tx.Directory().Connections().Remove(key)
		}
		if err == nil && !existed {
			err = fmt.Errorf("connection to %.40q: %w", key.Provider, perdure.NotFound)
		}
		if err != nil {
			return err
		}
		return addAudit(ctx, tx, key, "connection.removed")
	})
	if err == nil {
		c.unmask(key, 0)
	}
	return err
}

// addAudit adds an action on a connection to the audit log.
func addAudit(ctx context.Context, tx store.Tx, key store.ConnectionKey, action string) error {
	return tx.Audit().Add(store.AuditEntry{Org: key.Org, Actor: store.ActorOf(ctx), Action: action, Subject: key.Provider,
		Detail: map[string]string{"user": key.User}})
}

// mask masks the tokens of a connection in logs from now on. Those before them stay masked, because
// they may still be valid; older ones do not, so that the mask does not grow with every refresh.
func (c *Connections) mask(key store.ConnectionKey, tokens ...string) {
	if c.cfg.Ports.LogMask == nil {
		return
	}
	c.mu.Lock()
	for _, token := range tokens {
		if token != "" {
			c.cfg.Ports.LogMask.Add(token)
			c.masked[key] = append(c.masked[key], token)
		}
	}
	c.mu.Unlock()
	c.unmask(key, maxMasked)
}

// unmask removes all but the latest tokens of a connection from the mask of the logs.
func (c *Connections) unmask(key store.ConnectionKey, left int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.masked[key]
	for len(all) > left {
		c.cfg.Ports.LogMask.Remove(all[0])
		all = all[1:]
	}
	if c.masked[key] = slices.Clone(all); len(all) == 0 {
		delete(c.masked, key)
	}
}

// check returns what is wrong with a write.
func (w Write) check() error {
	if err := checkKey(w.Key); err != nil {
		return err
	}
	switch {
	case w.Token == "":
		return fmt.Errorf("%w token: it is empty", perdure.Invalid)
	case len(w.Token) > maxTokenBytes:
		return fmt.Errorf("%w token: it has %d bytes; the limit is %d", perdure.Invalid, len(w.Token), maxTokenBytes)
	case strings.ContainsFunc(w.Token, unicode.IsControl):
		return fmt.Errorf("%w token: it has a line break or another control character", perdure.Invalid)
	case len(w.Owner) > store.MaxUserBytes:
		return fmt.Errorf("%w owner: it has %d bytes; the limit is %d", perdure.Invalid, len(w.Owner), store.MaxUserBytes)
	}
	return checkHosts(w.Hosts)
}

// checkKey returns what is wrong with the names of a connection.
func checkKey(key store.ConnectionKey) error {
	for _, one := range []struct{ what, text string }{{"provider", key.Provider}, {"user", key.User}} {
		switch {
		case one.text == "" || len(one.text) > store.MaxUserBytes || strings.ContainsFunc(one.text, unicode.IsControl):
			return fmt.Errorf("%w %s: give 1 to %d bytes without control characters", perdure.Invalid, one.what, store.MaxUserBytes)
		case isReserved(one.text):
			return fmt.Errorf("%w %s: names that begin with %s are the runtime's own", perdure.Invalid, one.what, reservedPrefix)
		}
	}
	return nil
}

// checkHosts returns what is wrong with the hosts of a connection.
func checkHosts(hosts []string) error {
	if len(hosts) > maxHosts {
		return fmt.Errorf("%w hosts: there are %d; the limit is %d", perdure.Invalid, len(hosts), maxHosts)
	}
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-."
	for _, host := range hosts {
		if host == "" || len(host) > maxHostBytes || strings.Trim(host, letters) != "" || strings.HasPrefix(host, ".") ||
			strings.Contains(host, "..") {
			return fmt.Errorf("%w host %.80q: use a host name such as api.example.com, without scheme, path or port",
				perdure.Invalid, host)
		}
	}
	return nil
}

// isReserved reports whether a name is one of the runtime's own.
func isReserved(name string) bool { return strings.HasPrefix(name, reservedPrefix) }

// Details are what a connection has beside its token, in its metadata. The metadata may have more
// fields, which a change of the details leaves as they are.
type Details struct {
	Hosts     []string  `json:"hosts,omitempty"`     // to which requests of tools may carry the token
	Scopes    []string  `json:"scopes,omitempty"`    // as granted
	OAuth     bool      `json:"oauth,omitempty"`     // made by an authorization
	ExpiresAt time.Time `json:"expires_at,omitzero"` // of the token; zero: unknown, or never
	// ConnectedAt is when the user last connected. A refresh does not change it.
	ConnectedAt time.Time `json:"connected_at,omitzero"`
	RefreshAt   time.Time `json:"refresh_at,omitzero"` // from then on the token is refreshed before it is used
	// Flow is the digest of the state of the authorization that made the connection.
	Flow string `json:"flow,omitempty"`
	// Refreshing is when a process began to refresh the token; zero: none is doing that.
	Refreshing time.Time `json:"refreshing_at,omitzero"`
	// FailedAt is when the provider last gave no answer to a refresh; zero: it has answered since.
	FailedAt time.Time `json:"failed_at,omitzero"`
	Expired  string    `json:"expired,omitempty"` // why the token can no longer be refreshed; empty: it can
}

// detailsOf reads the details in a row's metadata. Metadata of another form has none.
func detailsOf(metadata []byte) (d Details) {
	if perdure.DecodeKnownJSON(metadata, &d) != nil {
		return Details{}
	}
	return d
}

// HasExpired reports whether the token can no longer be used at a time.
func (a Account) HasExpired(now time.Time) bool {
	d := a.Details
	return d.Expired != "" || !d.OAuth && !d.ExpiresAt.IsZero() && !now.Before(d.ExpiresAt)
}

// ConnectedAt returns when the user last connected. Of a row that says nothing, it is the last
// change.
func (a Account) ConnectedAt() time.Time {
	if a.Details.ConnectedAt.IsZero() {
		return a.UpdatedAt
	}
	return a.Details.ConnectedAt
}

// OwnerOf returns the owner of the account.
func (a Account) OwnerOf() string { return cmp.Or(a.Owner, a.Key.User) }

// sortedScopes returns the words of a scope.
func sortedScopes(scope string) []string {
	words := strings.FieldsFunc(scope, func(r rune) bool { return r == ' ' || r == ',' })
	slices.Sort(words)
	return slices.Compact(words)
}
