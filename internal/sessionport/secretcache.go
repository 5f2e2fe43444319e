package sessionport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

const (
	maxCachedSessions = 256              // sessions whose secrets are held open at once
	maxLearned        = 100              // keys and tokens that a session was given and that are masked
	secretReadTimeout = 10 * time.Second // timeout for reading them from the store
)

// secretCache caches the opened secrets of the sessions that run here, to mask them in the output
// of their tools (SE4). Every use compares the cache with the versions in the store. It is safe for
// concurrent use.
type secretCache struct {
	cfg Config

	mu       sync.Mutex
	sessions map[perdure.SessionID]*sessionSecrets // guarded by mu
	order    []perdure.SessionID                   // guarded by mu; least recently used first
	pins     map[perdure.SessionID]int             // guarded by mu; executions whose entry must stay
}

// sessionSecrets holds the opened secrets of one session.
type sessionSecrets struct {
	set *redact.Set

	mu      sync.Mutex              // held while the store is read, so that one read serves all
	opened  map[string]openedSecret // guarded by mu; by name
	loaded  bool                    // guarded by mu; the store was read at least once
	learned []string                // guarded by mu; keys and tokens in set that are no secrets of the session, the oldest first
	keyErr  error                   // guarded by mu; why a secret does not open now but may later; nil: all open
}

// openedSecret is one opened version of a secret.
type openedSecret struct {
	version int64
	value   string // empty: it cannot be opened
}

func newSecretCache(cfg Config) *secretCache {
	return &secretCache{cfg: cfg, sessions: map[perdure.SessionID]*sessionSecrets{}, pins: map[perdure.SessionID]int{}}
}

// session returns the cache entry of a session, and evicts the least recently used one that is not
// pinned where there are too many. A masker that already uses an evicted entry continues with it;
// keys and tokens that were learned for it are not masked in streams that are opened later.
func (k *secretCache) session(id perdure.SessionID) *sessionSecrets {
	s, evicted := k.getOrEvict(id)
	for _, one := range evicted {
		one.close(k.cfg.LogMask) // without k.mu: it may wait for a read of the store
	}
	return s
}

// pin keeps the entry of a session, with the keys and tokens that it was given, until unpin is
// called.
func (k *secretCache) pin(id perdure.SessionID) (unpin func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pins[id]++
	return sync.OnceFunc(func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.pins[id]--; k.pins[id] == 0 {
			delete(k.pins, id)
		}
	})
}

// getOrEvict returns the entry of a session, and the entries that it evicted.
func (k *secretCache) getOrEvict(id perdure.SessionID) (s *sessionSecrets, evicted []*sessionSecrets) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s = k.sessions[id]
	if s == nil {
		s = &sessionSecrets{set: redact.NewSet(), opened: map[string]openedSecret{}}
		k.sessions[id] = s
	}
	k.order = append(slices.DeleteFunc(k.order, func(other perdure.SessionID) bool { return other == id }), id)
	for len(k.order) > maxCachedSessions {
		at := slices.IndexFunc(k.order, func(other perdure.SessionID) bool { return other != id && k.pins[other] == 0 })
		if at < 0 {
			break
		}
		evicted = append(evicted, k.sessions[k.order[at]])
		delete(k.sessions, k.order[at])
		k.order = slices.Delete(k.order, at, at+1)
	}
	return s, evicted
}

// load brings the entry of a session up to date with the store. An error means that the store could
// not be read; the entry may then be out of date.
func (k *secretCache) load(id perdure.SessionID) (*sessionSecrets, error) {
	s := k.session(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), secretReadTimeout)
	defer cancel()
	var found []store.Secret
	var of store.Session
	err := k.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		found, err = r.Secrets().List(store.SecretFilter{Session: id, WithoutValue: true})
		for i := 0; i < len(found) && err == nil; i++ {
			if s.opened[found[i].Name].version == found[i].Version {
				continue
			}
			if found[i], err = r.Secrets().Get(id, found[i].Name); err == nil && of.ID == "" {
				of, err = r.Sessions().Get(id)
			}
		}
		return err
	})
	if err != nil {
		return s, err
	}
	s.loaded = true
	logged := s.keyErr != nil
	s.keyErr = nil
	current := map[string]bool{}
	for _, row := range found {
		current[row.Name] = true
		if row.Sealed != nil {
			s.put(k.cfg, of.Org, row, logged)
		}
	}
	for name, old := range s.opened {
		if !current[name] {
			s.set.Remove(old.value)
			k.cfg.LogMask.Remove(old.value)
			delete(s.opened, name)
		}
	}
	return s, nil
}

// put opens a version of a secret and replaces the one before in the mask. A version that cannot be
// opened is not masked. When only the key is missing, the next load tries again; logged says that
// this was logged before. The caller holds s.mu.
func (s *sessionSecrets) put(cfg Config, org string, row store.Secret, logged bool) {
	plain, err := cfg.openSecret(org, row)
	later := errors.Is(err, perdure.Unavailable)
	if err != nil && !(later && logged) {
		cfg.Log.Warn("secret not opened, so not masked", "session", row.Session, "name", row.Name, "error", err)
	}
	if later {
		s.keyErr = err
		return
	}
	value, old := string(plain), s.opened[row.Name]
	s.opened[row.Name] = openedSecret{version: row.Version, value: value}
	s.set.Add(value) // the new value first, so that one of them is always masked
	if cfg.LogMask != nil {
		cfg.LogMask.Add(value)
	}
	s.set.Remove(old.value)
	cfg.LogMask.Remove(old.value)
}

// close removes the session's secrets, and the keys and tokens that it was given, from the mask of
// the logs.
func (s *sessionSecrets) close(logs *redact.Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.opened {
		logs.Remove(one.value)
	}
	for _, value := range s.learned {
		logs.Remove(value)
	}
}

// refresh is load for callers that continue when the store cannot be read: they mask with what the
// entry has.
func (k *secretCache) refresh(id perdure.SessionID) {
	if k.cfg.Keys == nil {
		return
	}
	if _, err := k.load(id); err != nil {
		k.cfg.Log.Warn("session secrets not read", "session", id, "error", err)
	}
}

// sessionMask masks the output of one session's tools with the session's secrets.
type sessionMask struct {
	all     *secretCache
	session perdure.SessionID
}

var _ tool.SecretMasker = sessionMask{}

// Pin keeps what is known of the session, until unpin is called. An execution pins it, because it
// must mask the tokens that it was given when it reports, however many sessions run meanwhile.
func (b sessionMask) Pin() (unpin func()) { return b.all.pin(b.session) }

// Any reports whether there is anything to mask. It is true where the store cannot be read.
func (b sessionMask) Any() bool {
	s, err := b.all.load(b.session)
	if err != nil {
		b.logReadError(err)
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.opened) > 0 || len(s.learned) > 0
}

// Readable returns why the secrets are not known: the store could not be read yet, or a key is
// missing here.
func (b sessionMask) Complete() error {
	s, err := b.all.load(b.session)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		b.logReadError(err)
	}
	if err != nil && !s.loaded {
		return err
	}
	if s.keyErr != nil {
		return fmt.Errorf("%w: the key of a secret: %w", perdure.NotFound, s.keyErr)
	}
	return nil
}

// Mask removes the secrets from a text. Where they are not known, it shows nothing of the text
// (RD4).
func (b sessionMask) Mask(text string) string {
	set, ok := b.set()
	if !ok {
		return redact.Unprintable
	}
	return set.Mask(text)
}

// Stream removes the secrets from a stream of chunks, including secrets that are added while it
// runs.
func (b sessionMask) Stream() tool.StreamMasker {
	set, ok := b.set()
	if !ok {
		return &blindMask{}
	}
	return set.Stream()
}

// set returns the mask. ok is false where the secrets are not known.
func (b sessionMask) set() (set *redact.Set, ok bool) {
	s, err := b.all.load(b.session)
	if err == nil {
		return s.set, true
	}
	b.logReadError(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set, s.loaded
}

func (b sessionMask) logReadError(err error) {
	b.all.cfg.Log.Warn("session secrets not read", "session", b.session, slog.Any("error", err))
}

// blindMask masks a stream completely: it shows one placeholder and nothing else.
type blindMask struct{ done bool }

func (b *blindMask) Skip() []byte { return nil }

func (b *blindMask) Feed(chunk []byte) []byte {
	if b.done || len(chunk) == 0 {
		return nil
	}
	b.done = true
	return []byte(redact.Unprintable + "\n")
}

func (*blindMask) Flush() []byte { return nil }
