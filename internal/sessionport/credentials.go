package sessionport

import (
	"context"
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
	return c.seal(placeOf("", "provider", string(id)), key)
}

// OpenKey opens the key of a provider; one without a key is empty. Unavailable: there is no keyring, or not the right one.
func (c Config) OpenKey(p store.Provider) (string, error) {
	if len(p.Sealed) == 0 {
		return "", nil
	}
	key, err := c.open(placeOf("", "provider", string(p.ID)), p.Sealed)
	if err != nil {
		return "", fmt.Errorf("key of provider %s: %w", p.ID, err)
	}
	return key, nil
}

// SealToken seals the token of a user's connection for its row. Unavailable: there is no keyring.
func (c Config) SealToken(of store.ConnectionKey, token string) ([]byte, error) {
	return c.seal(placeOfToken(of), token)
}

// OpenToken opens the token of a connection. Unavailable: there is no keyring, or not the right one.
func (c Config) OpenToken(row store.Connection) (string, error) {
	token, err := c.open(placeOfToken(row.Key()), row.Sealed)
	if err != nil {
		return "", fmt.Errorf("token for %.40q: %w", row.Provider, err)
	}
	return token, nil
}

// placeOfToken is where the token of a connection is sealed.
func placeOfToken(of store.ConnectionKey) secret.Place {
	return placeOf(of.Org, "connection", of.User, of.Provider)
}

// placeOf is where a key or a token is sealed: what stands in one row opens in no other. Its names are the runtime's own, so no
// secret of a session has the same place. org is empty for the default one, and for what belongs to the runtime.
func placeOf(org, noun string, parts ...string) secret.Place {
	name := ownNames + noun
	for _, part := range parts {
		name += fmt.Sprintf("/%d:%s", len(part), part) // no part can end where it likes
	}
	return secret.Place{Org: org, Name: name}
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
