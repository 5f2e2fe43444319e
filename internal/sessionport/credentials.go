package sessionport

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// credentials implements tool.Credentials over the store's providers. A key is opened when the tool
// requests it, and is never stored in the clear.
type credentials struct {
	binding
	cfg   Config
	cache *secretCache
}

var _ tool.Credentials = credentials{}

// Credential returns the key of the default provider of a kind. NotFound: there is none.
// Unavailable: the key cannot be opened on this machine, and the error says why; no other key is
// used instead.
func (p credentials) Credential(ctx context.Context, kind string) (tool.Credential, error) {
	var found store.Provider
	var exists bool
	err := p.store.View(ctx, func(r store.Reader) (err error) {
		found, exists, err = r.Directory().Providers().Default(kind)
		return err
	})
	if err == nil && !exists {
		err = perdure.NotFound
	}
	if err != nil {
		return tool.Credential{}, fmt.Errorf("credential of %.40q: %w", kind, err)
	}
	key, err := p.cfg.OpenKey(found)
	if err != nil {
		return tool.Credential{}, err
	}
	p.cache.addMask(p.session, key)
	return tool.Credential{Key: key, BaseURL: found.BaseURL}, nil
}

// SealKey seals the key of a provider for its row. Unavailable: there is no keyring.
func (c Config) SealKey(id perdure.ProviderID, key string) ([]byte, error) {
	return c.seal(sealContext("", "provider", string(id)), key)
}

// OpenKey opens the key of a provider. A provider without a key has an empty one. Unavailable:
// there is no keyring, or not the right one.
func (c Config) OpenKey(p store.Provider) (string, error) {
	if len(p.Sealed) == 0 {
		return "", nil
	}
	key, err := c.open(sealContext("", "provider", string(p.ID)), p.Sealed)
	if err != nil {
		return "", fmt.Errorf("key of provider %s: %w", p.ID, err)
	}
	return key, nil
}

// SealToken seals the token of a user's connection for its row. Unavailable: there is no keyring.
func (c Config) SealToken(of store.ConnectionKey, token string) ([]byte, error) {
	return c.seal(tokenContext(of), token)
}

// OpenToken opens the text that SealToken sealed for a row. Unavailable: there is no keyring, or
// not the right one.
func (c Config) OpenToken(row store.Connection) (string, error) {
	token, err := c.open(tokenContext(row.Key()), row.Sealed)
	if err != nil {
		return "", fmt.Errorf("token for %.40q: %w", row.Provider, err)
	}
	return token, nil
}

// grantPrefix begins the sealed text of a connection that was made by an authorization. A token
// that a user gave has no control character, so no token begins with it.
const grantPrefix = "grant\x00"

// Grant is what an authorization gave: the token of a connection, and the token that fetches the
// next one.
type Grant struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token,omitempty"`
}

// String hides the tokens.
func (Grant) String() string { return "[grant]" }

// GoString hides the tokens.
func (Grant) GoString() string { return "[grant]" }

// SealGrant seals a grant for the row of a connection. Unavailable: there is no keyring.
func (c Config) SealGrant(of store.ConnectionKey, g Grant) ([]byte, error) {
	text, err := json.Marshal(g)
	if err != nil {
		return nil, err
	}
	return c.seal(tokenContext(of), grantPrefix+string(text))
}

// OpenGrant opens what a connection has sealed. A token that a user gave is a grant without a
// refresh token. Unavailable: there is no keyring, or not the right one.
func (c Config) OpenGrant(row store.Connection) (Grant, error) {
	text, err := c.open(tokenContext(row.Key()), row.Sealed)
	if err != nil {
		return Grant{}, fmt.Errorf("token for %.40q: %w", row.Provider, err)
	}
	return readGrant(text)
}

// readGrant reads what SealGrant or SealToken sealed. Its error shows nothing of the text.
func readGrant(text string) (g Grant, err error) {
	sealed, ok := strings.CutPrefix(text, grantPrefix)
	if !ok {
		return Grant{Access: text}, nil
	}
	if perdure.DecodeKnownJSON([]byte(sealed), &g) != nil || g.Access == "" {
		return Grant{}, fmt.Errorf("%w grant: it cannot be read; connect again", perdure.Invalid)
	}
	return g, nil
}

// freshToken returns the token of a connection that can be used now.
func (c Config) freshToken(ctx context.Context, row store.Connection) (string, error) {
	if c.FreshToken != nil {
		return c.FreshToken(ctx, row)
	}
	g, err := c.OpenGrant(row)
	return g.Access, err
}

// tokenContext is the seal context of a connection's token.
func tokenContext(of store.ConnectionKey) secret.Place {
	return sealContext(of.Org, "connection", of.User, of.Provider)
}

// sealContext is the seal context of a key or token: a value that is sealed for one row opens in no
// other row. Its name begins with the prefix of the runtime's own names, so no secret of a session
// has the same context. org is empty for the default org, and for values that belong to the runtime
// itself.
func sealContext(org, noun string, parts ...string) secret.Place {
	name := reservedPrefix + noun
	for _, part := range parts {
		name += fmt.Sprintf("/%d:%s", len(part), part) // with its length, so that two lists of parts never collide
	}
	return secret.Place{Org: org, Name: name}
}

func (c Config) seal(at secret.Place, text string) ([]byte, error) {
	if c.Keys == nil {
		return nil, secrets{cfg: c}.noKeyring()
	}
	return c.Keys.Seal(at, []byte(text))
}

func (c Config) open(at secret.Place, sealed []byte) (string, error) {
	if c.Keys == nil {
		return "", secrets{cfg: c}.noKeyring()
	}
	plain, err := c.Keys.Open(at, sealed)
	return string(plain), err
}

// addMask masks a value from now on in the output of this session's tools and in logs. Keys and
// tokens are no secrets of the session, but must not be shown either (CN1).
func (k *secretCache) addMask(id perdure.SessionID, value string) {
	if value == "" {
		return
	}
	s := k.session(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.learned, value) {
		return
	}
	if k.cfg.LogMask != nil {
		k.cfg.LogMask.Add(value)
	}
	s.set.Add(value)
	if s.learned = append(s.learned, value); len(s.learned) > maxLearned {
		s.set.Remove(s.learned[0])
		k.cfg.LogMask.Remove(s.learned[0])
		s.learned = slices.Delete(s.learned, 0, 1)
	}
}
