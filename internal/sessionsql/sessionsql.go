// Package sessionsql stores the databases of sessions: SQLite files of their own, for which the
// model writes the SQL (SQ1).
//
// It may import the root package, tool and the SQLite driver. The one thing to know: the author of
// the statements is not trusted. An authorizer sees every statement while it is compiled and
// decides whether it may run. Limits on every connection, a timeout and a check of the process's
// memory stop statements that run away. A statement can never access a file other than its own
// database.
package sessionsql

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	driver "modernc.org/sqlite"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// Default limits (SQ1), for a Config that sets none.
const (
	DefaultDatabases     = 10
	DefaultDatabaseBytes = 50 << 20
	DefaultSessionBytes  = 100 << 20
	DefaultTimeout       = 30 * time.Second
)

// Limits of a result (SQ1).
const (
	maxRows        = 1000
	maxResultBytes = 1 << 20 // of JSON
)

// mainName is the database of a statement that does not name one.
const mainName = "main"

var errClosed = fmt.Errorf("%w: the session databases are closed", perdure.Unavailable)

var (
	databaseNamePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) })
	sessionNamePattern  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`) })
)

// Config sets the directory of the databases and their limits. Only Dir is required.
type Config struct {
	// Dir is the directory of the databases. It is created if it is missing, with access for its
	// owner alone. The databases of a session are the files Dir/<session>/<name>.db.
	Dir              string
	MaxDatabases     int           // limit for each session; 0: DefaultDatabases
	MaxDatabaseBytes int64         // limit for each database; 0: DefaultDatabaseBytes
	MaxSessionBytes  int64         // limit for all databases of a session; 0: DefaultSessionBytes
	Timeout          time.Duration // of a statement; 0: DefaultTimeout
	// by how much the process may grow during a statement, checked on Linux only; 0: 256 MiB
	MaxMemoryGrowth int64
	MaxIdleOpen     int           // databases that stay open while idle; 0: 16
	IdleTimeout     time.Duration // how long a database stays open while idle; 0: one minute
	MaxParallel     int           // concurrent statements of all sessions; 0: 4
}

// Store holds the databases. It is safe for concurrent use. The statements of one session run one
// after another.
type Store struct {
	cfg     Config
	root    *os.Root
	driver  *driver.Driver
	slots   chan struct{} // one slot for each running statement
	dumps   chan struct{} // one slot for each running dump
	rows    collectors
	closing chan struct{} // closed by Close

	mu       sync.Mutex // guards the fields below
	closed   bool
	sessions map[perdure.SessionID]*session
	open     map[*database]bool // including idle ones
	uses     int64              // counter of uses, to find the least recently used database
}

// session is the state of a session that is in use or has an open database. It is guarded by
// Store.mu, except for the contents of its databases, which belong to the holder of turn.
type session struct {
	turn      chan struct{} // of length 1: full while a statement runs
	users     int           // number of goroutines that hold turn or wait for it
	databases map[string]*database
}

// New opens the directory of the databases. Invalid: no directory is given. Storage: it cannot be
// created or read. The caller must close the Store.
func New(cfg Config) (*Store, error) {
	if cfg.Dir == "" {
		return nil, fmt.Errorf("%w: no directory for the session databases is configured", perdure.Invalid)
	}
	cfg = cfg.withDefaults()
	var err error
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil { // the driver takes a URI, which cannot have a relative path
		return nil, fmt.Errorf("%w: resolve the directory of the session databases: %w", perdure.Storage, err)
	}
	if err := makeDir(cfg.Dir); err != nil {
		return nil, fmt.Errorf("%w: create the directory of the session databases: %w", perdure.Storage, err)
	}
	root, err := os.OpenRoot(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("%w: open the directory of the session databases: %w", perdure.Storage, err)
	}
	s := &Store{
		cfg: cfg, root: root, slots: make(chan struct{}, cfg.MaxParallel), dumps: make(chan struct{}, maxDumps), closing: make(chan struct{}),
		driver: &driver.Driver{}, sessions: map[perdure.SessionID]*session{}, open: map[*database]bool{},
	}
	if err := s.rows.register(s.driver); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return s, nil
}

func (c Config) withDefaults() Config {
	orElse(&c.MaxDatabases, DefaultDatabases)
	orElse(&c.MaxDatabaseBytes, DefaultDatabaseBytes)
	orElse(&c.MaxSessionBytes, DefaultSessionBytes)
	orElse(&c.Timeout, DefaultTimeout)
	orElse(&c.MaxMemoryGrowth, 256<<20)
	orElse(&c.MaxIdleOpen, 16)
	orElse(&c.IdleTimeout, time.Minute)
	orElse(&c.MaxParallel, 4)
	return c
}

func orElse[T ~int | ~int64](field *T, fallback T) {
	if *field <= 0 {
		*field = fallback
	}
}

// For returns the databases of a session.
func (s *Store) For(id perdure.SessionID) tool.SQL { return port{store: s, session: id} }

// Remove removes all databases of a session, once no statement of it runs. A session without
// databases is no error.
func (s *Store) Remove(ctx context.Context, id perdure.SessionID) error {
	return s.withTurn(ctx, id, func(own *session) error {
		for name := range own.databases {
			s.closeDatabase(own, name)
		}
		if err := s.root.RemoveAll(string(id)); err != nil {
			return fmt.Errorf("%w: remove the databases of session %s: %w", perdure.Storage, id, err)
		}
		return nil
	})
}

// Close waits for running statements and closes all databases. Later calls on the Store return
// Unavailable.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	close(s.closing)
	for range cap(s.slots) { // every running statement frees its slot within the timeout
		s.slots <- struct{}{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for d := range s.open {
		errs = append(errs, d.close())
		delete(s.open, d)
	}
	return errors.Join(append(errs, s.root.Close())...)
}

// withTurn runs fn while it holds the session's turn and a statement slot.
func (s *Store) withTurn(ctx context.Context, id perdure.SessionID, fn func(*session) error) error {
	own, err := s.acquireTurn(ctx, id)
	if err != nil {
		return err
	}
	defer s.removeUser(id, own)
	defer func() { <-own.turn }()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.closing:
		return errClosed
	}
	select {
	case <-s.closing: // select picks at random when the slot was free too
		return errClosed
	default:
		return fn(own)
	}
}

func (s *Store) addUser(id perdure.SessionID) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.sessions[id]
	if own == nil {
		own = &session{turn: make(chan struct{}, 1), databases: map[string]*database{}}
		s.sessions[id] = own
	}
	own.users++
	return own
}

func (s *Store) removeUser(id perdure.SessionID, own *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own.users--
	s.forget(id, own)
}

// forget removes the state of a session that is not in use and has no open database. The caller
// holds s.mu.
func (s *Store) forget(id perdure.SessionID, own *session) {
	if own.users == 0 && len(own.databases) == 0 {
		delete(s.sessions, id)
	}
}
