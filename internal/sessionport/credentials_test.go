package sessionport_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// The ids of providers, and the canaries: words that occur nowhere else.
const (
	openaiID  perdure.ProviderID = "provider_00000000000000000000000000000001"
	localID   perdure.ProviderID = "provider_00000000000000000000000000000002"
	keyCanary                    = "canary-key-3f9a1c77d2"
	tokCanary                    = "canary-token-77d2b1e6f0"
)

// keyring creates a keyring in a file of the test's own.
func keyring(t *testing.T) *secret.Keyring {
	t.Helper()
	k, err := secret.Create(filepath.Join(t.TempDir(), "keyring"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// connected is a world with a provider that has a key, one that needs none, and the connections of
// two users.
func connected(w *world, keys *secret.Keyring) sessionport.Config {
	w.Helper()
	cfg := sessionport.Config{Store: w.Store, Keys: keys, LogMask: redact.NewSet()}
	key, err := cfg.SealKey(openaiID, keyCanary)
	token, failed := cfg.SealToken(store.ConnectionKey{User: sessionport.LocalUser, Provider: "github"}, tokCanary)
	other, broken := cfg.SealToken(store.ConnectionKey{User: "another", Provider: "slack"}, "of another")
	if err = errors.Join(err, failed, broken); err != nil {
		w.Fatal(err)
	}
	err = w.InTx(w.Context(), func(tx store.Tx) error {
		var errs [6]error
		_, errs[0] = tx.Directory().Providers().Put(store.Provider{ID: openaiID, Kind: "openai", BaseURL: "https://a.test", Sealed: key})
		_, errs[1] = tx.Directory().Providers().Put(store.Provider{ID: localID, Kind: "ollama"})
		errs[2], errs[3] = tx.Directory().Providers().SetDefault(openaiID), tx.Directory().Providers().SetDefault(localID)
		_, errs[4] = tx.Directory().Connections().Put(store.Connection{User: sessionport.LocalUser, Provider: "github", Sealed: token, Owner: "octo", Metadata: json.RawMessage(`{"login":"octo"}`)})
		_, errs[5] = tx.Directory().Connections().Put(store.Connection{User: "another", Provider: "slack", Sealed: other})
		return errors.Join(errs[:]...)
	})
	if err != nil {
		w.Fatal(err)
	}
	return cfg
}

// TestCredentials: the default key of a kind, and no other key if it is missing or does not open
// (MR1).
func TestCredentials(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		cfg := connected(w, keyring(w.T))
		id := w.session()
		ports := sessionport.New(cfg)(id, tool.Call{})

		got, err := ports.Credentials.Credential(w.Context(), "openai")
		if err != nil || got != (tool.Credential{Key: keyCanary, BaseURL: "https://a.test"}) {
			w.Errorf("openai: got key %t, %q, %v", got.Key == keyCanary, got.BaseURL, err)
		}
		if got, err := ports.Credentials.Credential(w.Context(), "ollama"); err != nil || got != (tool.Credential{}) {
			w.Errorf("ollama: got %v, %v, want one without a key", got, err)
		}
		if _, err := ports.Credentials.Credential(w.Context(), "anthropic"); !errors.Is(err, perdure.NotFound) {
			w.Errorf("anthropic: got %v, want none", err)
		}
		for name, other := range map[string]*secret.Keyring{"no ring": nil, "another ring": keyring(w.T)} {
			closed := cfg
			closed.Keys, closed.NoKeysReason = other, "it was not given one"
			_, err := sessionport.New(closed)(id, tool.Call{}).Credentials.Credential(w.Context(), "openai")
			_, failed := sessionport.New(closed)(id, tool.Call{}).Connections.Token(w.Context(), "github")
			if !errors.Is(err, perdure.Unavailable) || !errors.Is(failed, perdure.Unavailable) {
				w.Errorf("%s: got %v and %v, want unavailable", name, err, failed)
			}
			if other == nil && !strings.Contains(err.Error(), closed.NoKeysReason) {
				w.Errorf("%s: got %v, want the reason", name, err)
			}
		}
		if _, err := (sessionport.Config{}).SealKey(openaiID, "key"); !errors.Is(err, perdure.Unavailable) {
			w.Errorf("sealing without a ring: got %v, want unavailable", err)
		}
	})
}

// TestConnections: the connections of the session's user, read at the time of use, and none of
// another user (CN1).
func TestConnections(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		cfg := connected(w, keyring(w.T))
		open := sessionport.New(cfg)
		port := open(w.session(), tool.Call{}).Connections

		token, err := port.Token(w.Context(), "github")
		owner, failed := port.Owner(w.Context(), "github")
		metadata, broken := port.Metadata(w.Context(), "github")
		if diff := cmp.Diff([]string{tokCanary, "octo", `{"login":"octo"}`}, []string{token, owner, string(metadata)}); diff != "" || errors.Join(err, failed, broken) != nil {
			w.Errorf("github: %v (-want +got):\n%s", errors.Join(err, failed, broken), diff)
		}
		_, err = port.Token(w.Context(), "slack")
		_, failed = port.Owner(w.Context(), "slack")
		_, broken = port.Metadata(w.Context(), "slack")
		for _, err := range []error{err, failed, broken} {
			if !errors.Is(err, perdure.NotFound) {
				w.Errorf("slack: got %v, want not connected", err)
			}
		}
		other := open(w.sessionOf("", "another"), tool.Call{}).Connections
		token, err = other.Token(w.Context(), "slack")
		owner, failed = other.Owner(w.Context(), "slack")
		metadata, broken = other.Metadata(w.Context(), "slack")
		if diff := cmp.Diff([]string{"of another", "another", `{}`}, []string{token, owner, string(metadata)}); diff != "" || errors.Join(err, failed, broken) != nil {
			w.Errorf("slack of another: %v (-want +got):\n%s", errors.Join(err, failed, broken), diff)
		}

		fresh, err := cfg.SealToken(store.ConnectionKey{User: sessionport.LocalUser, Provider: "github"}, "a new one")
		if err != nil {
			w.Fatal(err)
		}
		err = w.InTx(w.Context(), func(tx store.Tx) error {
			c, _, err := tx.Directory().Connections().Get(store.ConnectionKey{User: sessionport.LocalUser, Provider: "github"})
			if err == nil {
				c.Sealed = fresh
				_, err = tx.Directory().Connections().Put(c)
			}
			return err
		})
		if token, read := port.Token(w.Context(), "github"); token != "a new one" || errors.Join(err, read) != nil {
			w.Errorf("after a change: got %q, %v", token, errors.Join(err, read))
		}
	})
}

// TestConnectionOf: a lease is cleaned up with its owner's connection, never with any other (RS7).
func TestConnectionOf(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		cfg := connected(w, keyring(w.T))
		add := func(org, user, owner string) {
			key := store.ConnectionKey{Org: org, User: user, Provider: "github"}
			sealed, err := cfg.SealToken(key, "of "+org+user)
			if err == nil {
				err = w.InTx(w.Context(), func(tx store.Tx) error {
					_, err := tx.Directory().Connections().Put(store.Connection{Org: org, User: user, Provider: "github", Sealed: sealed, Owner: owner})
					return err
				})
			}
			if err != nil {
				w.Fatal(err)
			}
		}
		add("", "second", "twice")
		add("", "third", "twice")
		add("", "plain", "")
		add("acme", "plain", "")
		add("acme", "fourth", "octo")
		add("acme", "nobody", "")
		for owner, want := range map[string]string{"octo": tokCanary, "plain": "of plain", "twice": "", "second": "", "nobody": "", sessionport.LocalUser: ""} {
			got, err := cfg.ConnectionOf(w.Context(), "", owner, "github")
			if got != want || (want == "") != errors.Is(err, perdure.NotFound) {
				w.Errorf("%s: got %q, %v, want %q", owner, got, err, want)
			}
		}
		for owner, want := range map[string]string{"octo": "of acmefourth", "plain": "of acmeplain", "twice": "", "nobody": "of acmenobody"} {
			got, err := cfg.ConnectionOf(w.Context(), "acme", owner, "github")
			if got != want || (want == "") != errors.Is(err, perdure.NotFound) {
				w.Errorf("%s of acme: got %q, %v, want %q", owner, got, err, want)
			}
		}
	})
}

// TestSealedRows: a key opens in its own row only, and a rotation re-encrypts all of them.
func TestSealedRows(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		keys := keyring(w.T)
		cfg := connected(w, keys)
		key, err := cfg.SealKey(openaiID, "key")
		if err != nil {
			w.Fatal(err)
		}
		for name, open := range map[string]func() (string, error){
			"another provider": func() (string, error) { return cfg.OpenKey(store.Provider{ID: localID, Sealed: key}) },
			"a connection":     func() (string, error) { return cfg.OpenToken(store.Connection{User: string(openaiID), Sealed: key}) },
		} {
			if got, err := open(); !errors.Is(err, secret.Tampered) || got != "" {
				w.Errorf("%s: got %q, %v, want tampered", name, got, err)
			}
		}
		token, err := cfg.SealToken(store.ConnectionKey{User: "a", Provider: "bc"}, "token")
		if err != nil {
			w.Fatal(err)
		}
		for _, c := range []store.Connection{{User: "ab", Provider: "c"}, {Org: "acme", User: "a", Provider: "bc"}} {
			c.Sealed = token
			if _, err := cfg.OpenToken(c); !errors.Is(err, secret.Tampered) {
				w.Errorf("user %s of org %q: got %v, want tampered", c.User, c.Org, err)
			}
		}

		if _, err := keys.Rotate(); err != nil {
			w.Fatal(err)
		}
		for _, want := range []int{3, 0} {
			n, err := sessionport.ReencryptDirectory(w.Context(), cfg)
			if n != want || err != nil {
				w.Errorf("re-encrypted: got %d, %v, want %d", n, err, want)
			}
		}
		got, err := sessionport.New(cfg)("session_a", tool.Call{}).Credentials.Credential(w.Context(), "openai")
		if got.Key != keyCanary || err != nil {
			w.Errorf("after it: got the key %t, %v", got.Key == keyCanary, err)
		}
		current, err := keys.Current()
		if err != nil {
			w.Fatal(err)
		}
		err = w.View(w.Context(), func(r store.Reader) error {
			p, _, err := r.Directory().Providers().Get(openaiID)
			if err == nil {
				var id string
				if id, err = secret.KeyID(p.Sealed); id != current {
					w.Errorf("it is under key %s, want %s", id, current)
				}
			}
			return err
		})
		if err != nil {
			w.Error(err)
		}
	})
}

// TestOpenedTokensAreMasked: keys and tokens that a port opened are masked in the output of the
// session's tools, and in logs.
func TestOpenedTokensAreMasked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "memory")
	cfg := connected(w, keyring(t))
	ports := sessionport.New(cfg)(w.session(), tool.Call{})
	if ports.SecretMasker.Any() {
		t.Error("there is something to mask before anything was opened")
	}

	if _, err := ports.Connections.Token(t.Context(), "github"); err != nil {
		t.Fatal(err)
	}
	if _, err := ports.Credentials.Credential(t.Context(), "openai"); err != nil {
		t.Fatal(err)
	}

	text := "token " + tokCanary + " key " + keyCanary
	if !ports.SecretMasker.Any() {
		t.Error("there is nothing to mask")
	}
	for name, got := range map[string]string{"reports": ports.SecretMasker.Mask(text), "logs": cfg.LogMask.Mask(text)} {
		if strings.Contains(got, "canary") {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// meddling is a store in which another writer changes a row of the directory right before the first
// write of a pass.
type meddling struct {
	store.Store
	once   sync.Once
	meddle func()
}

// InTx runs a transaction after the other one.
func (m *meddling) InTx(ctx context.Context, fn func(store.Tx) error) error {
	m.once.Do(m.meddle)
	return m.Store.InTx(ctx, fn)
}

// TestResealDirectoryBesideOthers: a row that another writer seals under the old key meanwhile is
// tried again, one that does not open does not block the others, and no key in use is pruned.
func TestResealDirectoryBesideOthers(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		keys := keyring(w.T)
		cfg := connected(w, keys)
		old, err := cfg.SealKey(openaiID, "written meanwhile")
		if err != nil {
			w.Fatal(err)
		}
		put := func(change func(tx store.Tx) error) {
			if err := w.InTx(w.Context(), change); err != nil {
				w.Error(err)
			}
		}
		first, err := keys.Current()
		if err != nil {
			w.Fatal(err)
		}
		if _, err := keys.Rotate(); err != nil {
			w.Fatal(err)
		}
		used, err := sessionport.KeysInUse(w.Context(), cfg)
		if err != nil || !slices.Equal(used, []string{first}) {
			w.Errorf("in use are %v, %v, want %s", used, err, first)
		}
		if gone, err := keys.Prune(used, time.Now().Add(time.Hour)); err != nil || len(gone) != 0 {
			w.Errorf("pruned was %v, %v", gone, err)
		}
		put(func(tx store.Tx) error { // under the old key, and damaged
			c, _, err := tx.Directory().Connections().Get(store.ConnectionKey{User: "another", Provider: "slack"})
			if err == nil {
				c.Sealed = slices.Clone(c.Sealed)
				c.Sealed[len(c.Sealed)/2] ^= 1
				_, err = tx.Directory().Connections().Put(c)
			}
			return err
		})
		between := cfg
		between.Store = &meddling{Store: w.Store, meddle: func() {
			put(func(tx store.Tx) error {
				p, _, err := tx.Directory().Providers().Get(openaiID)
				if err == nil {
					p.Sealed = old
					_, err = tx.Directory().Providers().Put(p)
				}
				return err
			})
		}}

		n, err := sessionport.ReencryptDirectory(w.Context(), between)

		if n != 2 || !errors.Is(err, secret.Corrupt) || !strings.Contains(err.Error(), "1 keys and tokens could not be re-encrypted") {
			w.Errorf("got %d, %v, want 2 and the one that is damaged", n, err)
		}
		current, err := keys.Current()
		if err != nil {
			w.Fatal(err)
		}
		if used, err := sessionport.KeysInUse(w.Context(), cfg); err != nil || !slices.Equal(used, []string{current}) {
			w.Errorf("in use are %v, %v, want %s", used, err, current)
		}
		got, err := sessionport.New(cfg)("session_a", tool.Call{}).Credentials.Credential(w.Context(), "openai")
		if got.Key != "written meanwhile" || err != nil {
			w.Errorf("got the key %q, %v", got.Key, err)
		}
	})
}
