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
	maxKnown  = 256              // sessions whose secrets are held open at once
	knownTime = 10 * time.Second // that the store may take to tell them
)

// known is the values of the secrets of the sessions that are at work here, to be masked in what their tools say (SE4). It is
// a cache: whoever asks compares it with the versions in the store. Safe for concurrent use.
type known struct {
	cfg Config

	mu       sync.Mutex
	sessions map[perdure.SessionID]*knownSession // guarded by mu
	order    []perdure.SessionID                 // guarded by mu; by when they were asked for, the longest ago first
}

// knownSession is the secrets of one session.
type knownSession struct {
	set *redact.Set

	mu      sync.Mutex            // held while the store is asked, so that one asks for all
	opened  map[string]openSecret // guarded by mu; by name
	loaded  bool                  // guarded by mu; the store has answered once
	learned bool                  // guarded by mu; set has keys and tokens, too, which are no secrets of the session
	closed  error                 // guarded by mu; why some secret does not open, where it may open later; nil: all do
}

// openSecret is a version of a secret.
type openSecret struct {
	version int64
	value   string // empty: it does not open
}

func newKnown(cfg Config) *known {
	return &known{cfg: cfg, sessions: map[perdure.SessionID]*knownSession{}}
}

// of returns what is held of a session. What is held of the one that was asked for the longest ago may go for it: whoever
// masks by that goes on, and what was learned for it beside its secrets is not masked in what is opened later.
func (k *known) of(id perdure.SessionID) *knownSession {
	s, gone := k.swap(id)
	if gone != nil {
		gone.close(k.cfg.Logs) // may wait for the store, and so without mu
	}
	return s
}

// swap returns what is held of a session, and what is held no longer, if anything.
func (k *known) swap(id perdure.SessionID) (s, gone *knownSession) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s = k.sessions[id]
	if s == nil {
		s = &knownSession{set: redact.NewSet(), opened: map[string]openSecret{}}
		k.sessions[id] = s
	}
	k.order = append(slices.DeleteFunc(k.order, func(other perdure.SessionID) bool { return other == id }), id)
	if len(k.order) > maxKnown {
		oldest := k.order[0]
		k.order = k.order[1:]
		gone = k.sessions[oldest]
		delete(k.sessions, oldest)
	}
	return s, gone
}

// load brings what is held to the state of the store. An error means that the store did not answer: what is held may be old.
func (k *known) load(id perdure.SessionID) (*knownSession, error) {
	s := k.of(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), knownTime)
	defer cancel()
	var found []store.Secret
	var of store.Session
	err := k.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		found, err = r.Secrets(store.SecretFilter{Session: id, Bare: true})
		for i := 0; i < len(found) && err == nil; i++ {
			if s.opened[found[i].Name].version == found[i].Version {
				continue
			}
			if found[i], err = r.Secret(id, found[i].Name); err == nil && of.ID == "" {
				of, err = r.Session(id)
			}
		}
		return err
	})
	if err != nil {
		return s, err
	}
	s.loaded = true
	told := s.closed != nil
	s.closed = nil
	here := map[string]bool{}
	for _, row := range found {
		here[row.Name] = true
		if row.Sealed != nil {
			s.put(k.cfg, of.Org, row, told)
		}
	}
	for name, old := range s.opened {
		if !here[name] {
			s.set.Remove(old.value)
			k.cfg.Logs.Remove(old.value)
			delete(s.opened, name)
		}
	}
	return s, nil
}

// put opens a version and makes it known in the place of the one before. One that does not open is not known to anybody here
// either; where it is only the key that is not here, it is tried again. told: that was logged before. It is called with mu held.
func (s *knownSession) put(cfg Config, org string, row store.Secret, told bool) {
	plain, err := cfg.openSecret(org, row)
	later := errors.Is(err, perdure.Unavailable)
	if err != nil && !(later && told) {
		cfg.Log.Warn("a secret does not open, and is masked nowhere", "session", row.Session, "name", row.Name, "error", err)
	}
	if later {
		s.closed = err
		return
	}
	value, old := string(plain), s.opened[row.Name]
	s.opened[row.Name] = openSecret{version: row.Version, value: value}
	s.set.Add(value) // first the new one: there is no moment without
	if cfg.Logs != nil {
		cfg.Logs.Add(value)
	}
	s.set.Remove(old.value)
	cfg.Logs.Remove(old.value)
}

// close takes what is held back from the logs.
func (s *knownSession) close(logs *redact.Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.opened {
		logs.Remove(one.value)
	}
}

// refresh is load for those to whom a store that does not answer is no reason to stop: they mask by what is held.
func (k *known) refresh(id perdure.SessionID) {
	if k.cfg.Keys == nil {
		return
	}
	if _, err := k.load(id); err != nil {
		k.cfg.Log.Warn("the secrets of a session cannot be read", "session", id, "error", err)
	}
}

// bound is the secrets of one session, as its tools' reports are masked by them.
type bound struct {
	all     *known
	session perdure.SessionID
}

var _ tool.Known = bound{}

// Any reports whether there is anything to mask. Where the store does not answer, there may be.
func (b bound) Any() bool {
	s, err := b.all.load(b.session)
	if err != nil {
		b.fails(err)
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.opened) > 0 || s.learned
}

// Readable says why the secrets are not known: the store has not told them yet, or the key of one is not here.
func (b bound) Readable() error {
	s, err := b.all.load(b.session)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		b.fails(err)
	}
	if err != nil && !s.loaded {
		return err
	}
	if s.closed != nil {
		return fmt.Errorf("%w: the key of a secret: %w", perdure.NotFound, s.closed)
	}
	return nil
}

// Mask takes the secrets out of a text. Where they are not known, nothing of it is shown (RD4).
func (b bound) Mask(text string) string {
	set, ok := b.set()
	if !ok {
		return redact.Unprintable
	}
	return set.Mask(text)
}

// Stream takes the secrets out of what comes in pieces, also those that are added meanwhile.
func (b bound) Stream() tool.Masking {
	set, ok := b.set()
	if !ok {
		return &blind{}
	}
	return set.Stream()
}

// set returns what masks; not ok: nobody knows the secrets.
func (b bound) set() (set *redact.Set, ok bool) {
	s, err := b.all.load(b.session)
	if err == nil {
		return s.set, true
	}
	b.fails(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set, s.loaded
}

func (b bound) fails(err error) {
	b.all.cfg.Log.Warn("the secrets of a session cannot be read", "session", b.session, slog.Any("error", err))
}

// blind shows nothing, and says so once.
type blind struct{ said bool }

// Skip shows nothing.
func (b *blind) Skip() []byte { return nil }

// Feed shows nothing.
func (b *blind) Feed(chunk []byte) []byte {
	if b.said || len(chunk) == 0 {
		return nil
	}
	b.said = true
	return []byte(redact.Unprintable + "\n")
}

// Flush shows nothing.
func (*blind) Flush() []byte { return nil }
