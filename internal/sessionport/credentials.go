package sessionport

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// credentials is the port tool.Credentials over the store's providers. A key is opened when it is asked for, and is kept nowhere.
type credentials struct {
	binding
	cfg   Config
	known *known
}

var _ tool.Credentials = credentials{}

// Credential returns the key of the default provider of a kind. NotFound: there is none. Unavailable: its key cannot be opened
// here, with the reason; no other key stands in for it (MR1).
func (p credentials) Credential(ctx context.Context, kind string) (tool.Credential, error) {
	var found store.Provider
	var there bool
	err := p.store.View(ctx, func(r store.Reader) (err error) {
		found, there, err = r.DefaultProvider(kind)
		return err
	})
	if err == nil && !there {
		err = perdure.NotFound
	}
	if err != nil {
		return tool.Credential{}, fmt.Errorf("credential of %.40q: %w", kind, err)
	}
	key, err := p.cfg.OpenKey(found)
	if err != nil {
		return tool.Credential{}, err
	}
	p.known.learn(p.session, key)
	return tool.Credential{Key: key, BaseURL: found.BaseURL}, nil
}

// SealKey seals the key of a provider for its row. Unavailable: there is no keyring.
func (c Config) SealKey(id perdure.ProviderID, key string) ([]byte, error) {
	return c.seal(c.placeOf("provider", string(id)), key)
}

// OpenKey opens the key of a provider; one without a key is empty. Unavailable: there is no keyring, or not the right one.
func (c Config) OpenKey(p store.Provider) (string, error) {
	if len(p.Sealed) == 0 {
		return "", nil
	}
	key, err := c.open(c.placeOf("provider", string(p.ID)), p.Sealed)
	if err != nil {
		return "", fmt.Errorf("key of provider %s: %w", p.ID, err)
	}
	return key, nil
}

// SealToken seals the token of a user's connection for its row. Unavailable: there is no keyring.
func (c Config) SealToken(user, provider, token string) ([]byte, error) {
	return c.seal(c.placeOf("connection", user, provider), token)
}

// OpenToken opens the token of a connection. Unavailable: there is no keyring, or not the right one.
func (c Config) OpenToken(row store.Connection) (string, error) {
	token, err := c.open(c.placeOf("connection", row.User, row.Provider), row.Sealed)
	if err != nil {
		return "", fmt.Errorf("token for %.40q: %w", row.Provider, err)
	}
	return token, nil
}

// placeOf is where a key or a token is sealed: what stands in one row opens in no other. Its names are the runtime's own, so no
// secret of a session has the same place.
func (c Config) placeOf(noun string, parts ...string) secret.Place {
	name := ownNames + noun
	for _, part := range parts {
		name += fmt.Sprintf("/%d:%s", len(part), part) // no part can end where it likes
	}
	return secret.Place{Org: c.Org, Name: name}
}

func (c Config) seal(at secret.Place, text string) ([]byte, error) {
	if c.Keys == nil {
		return nil, secrets{cfg: c}.noKeys()
	}
	return c.Keys.Seal(at, []byte(text))
}

func (c Config) open(at secret.Place, sealed []byte) (string, error) {
	if c.Keys == nil {
		return "", secrets{cfg: c}.noKeys()
	}
	plain, err := c.Keys.Open(at, sealed)
	return string(plain), err
}

// learn masks a value from now on in what this session's tools report, and in logs: not only the session's secrets must not
// stand there (CN1).
func (k *known) learn(id perdure.SessionID, value string) {
	if value == "" {
		return
	}
	if k.cfg.Logs != nil {
		k.cfg.Logs.Add(value)
	}
	s := k.of(id)
	s.set.Add(value)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.learned = true
}

// ResealDirectory seals the keys of providers and the tokens of connections that are not under the keyring's current key anew,
// and says how many. It may be stopped and begun again, and leaves alone what somebody else wrote meanwhile: a key of the
// ring may be pruned once this returned 0 without an error.
func ResealDirectory(ctx context.Context, cfg Config) (n int, err error) {
	current, err := cfg.Keys.Current()
	if err != nil {
		return 0, err
	}
	var providers []store.Provider
	var connections []store.Connection
	err = cfg.Store.View(ctx, func(r store.Reader) (err error) {
		if providers, err = r.Providers(); err == nil {
			connections, err = r.Connections("")
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("seal anew: %w", err)
	}
	again := func(at secret.Place, sealed []byte, put func(store.Tx, []byte) error) error {
		id, err := secret.KeyID(sealed)
		if err != nil || id == current {
			return err
		}
		plain, err := cfg.Keys.Open(at, sealed)
		if err == nil {
			sealed, err = cfg.Keys.Seal(at, plain)
		}
		if err == nil {
			err = cfg.Store.InTx(ctx, func(tx store.Tx) error { return put(tx, sealed) })
		}
		if errors.Is(err, perdure.Conflict) {
			return nil // whoever was quicker sealed it under a key of their own; the next run looks
		}
		n++
		return err
	}
	for _, p := range providers {
		if len(p.Sealed) == 0 {
			continue
		}
		err := again(cfg.placeOf("provider", string(p.ID)), p.Sealed, func(tx store.Tx, sealed []byte) error {
			p.Sealed = sealed
			_, err := tx.PutProvider(p)
			return err
		})
		if err != nil {
			return n, fmt.Errorf("seal the key of provider %s anew: %w", p.ID, err)
		}
	}
	for _, c := range connections {
		err := again(cfg.placeOf("connection", c.User, c.Provider), c.Sealed, func(tx store.Tx, sealed []byte) error {
			c.Sealed = sealed
			_, err := tx.PutConnection(c)
			return err
		})
		if err != nil {
			return n, fmt.Errorf("seal the token for %.40q anew: %w", c.Provider, err)
		}
	}
	return n, nil
}
