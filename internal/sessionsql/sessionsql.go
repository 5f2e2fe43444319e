// Package sessionsql keeps the databases of sessions: SQLite files of their own, that a model writes SQL for (SQ1).
//
// It may import the root, tool and the SQLite driver. The one thing to know: whoever writes the statements is not
// trusted. An authorizer that sees every statement while it is compiled decides what may run at all; limits on every
// connection, a clock and a watch on memory end what runs away; and a statement never reaches a file but its own.
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

// The limits of SQ1 where a Config has none.
const (
	DefaultDatabases     = 10
	DefaultDatabaseBytes = 50 << 20
	DefaultSessionBytes  = 100 << 20
	DefaultTimeout       = 30 * time.Second
)

// The limits of a result (SQ1).
const (
	maxRows        = 1000
	maxResultBytes = 1 << 20 // of JSON
)

// mainName is the database of a statement that names none.
const mainName = "main"

var errClosed = fmt.Errorf("%w: the databases of sessions are closed", perdure.Unavailable)

var (
	databaseNames = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) })
	sessionNames  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`) })
)

// Config says where the databases are and how much of everything there may be. Only Dir is required.
type Config struct {
	Dir           string        // made, for its owner alone, where it is missing; a session's files are DIR/<session>/<name>.db
	Databases     int           // of a session; 0: DefaultDatabases
	DatabaseBytes int64         // 0: DefaultDatabaseBytes
	SessionBytes  int64         // of all databases of a session; 0: DefaultSessionBytes
	Timeout       time.Duration // of a statement; 0: DefaultTimeout
	MemoryBytes   int64         // that the process may grow by during a statement, measured on Linux only; 0: 256 MiB
	Open          int           // databases held open while nobody uses them; 0: 16
	Idle          time.Duration // how long one is held open so; 0: a minute
	Parallel      int           // statements of all sessions at once; 0: 4
}

// Store keeps the databases. Safe for concurrent use; the statements of one session run one after another.
type Store struct {
	cfg    Config
	root   *os.Root
	driver *driver.Driver
	slots  chan struct{} // one place for each statement that runs
	rows   collectors
	gone   chan struct{} // closed by Close

	mu       sync.Mutex // guards what follows
	closed   bool
	sessions map[perdure.SessionID]*session
	open     map[*database]bool // those that nobody uses are among them
	uses     int64              // counts, so that the database used longest ago is known
}

// session is what is known of a session while somebody uses it or a database of it is open. Guarded by Store.mu, but
// for its databases, which belong to whoever holds turn.
type session struct {
	turn      chan struct{} // of length 1: full while a statement runs
	users     int           // that hold turn or wait for it
	databases map[string]*database
}

// New opens the folder. Storage: it cannot be made or read. The caller closes the Store.
func New(cfg Config) (*Store, error) {
	if cfg.Dir == "" {
		return nil, fmt.Errorf("%w: no folder for the databases of sessions given", perdure.Invalid)
	}
	cfg = cfg.withDefaults()
	var err error
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil { // the driver has a URI, and those have no relative paths
		return nil, fmt.Errorf("%w: find the folder for the databases of sessions: %w", perdure.Storage, err)
	}
	if err := makeFolder(cfg.Dir); err != nil {
		return nil, fmt.Errorf("%w: make the folder for the databases of sessions: %w", perdure.Storage, err)
	}
	root, err := os.OpenRoot(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("%w: open the folder of the databases of sessions: %w", perdure.Storage, err)
	}
	s := &Store{
		cfg: cfg, root: root, slots: make(chan struct{}, cfg.Parallel), gone: make(chan struct{}), driver: &driver.Driver{},
		sessions: map[perdure.SessionID]*session{}, open: map[*database]bool{},
	}
	if err := s.rows.register(s.driver); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return s, nil
}

func (c Config) withDefaults() Config {
	orElse(&c.Databases, DefaultDatabases)
	orElse(&c.DatabaseBytes, DefaultDatabaseBytes)
	orElse(&c.SessionBytes, DefaultSessionBytes)
	orElse(&c.Timeout, DefaultTimeout)
	orElse(&c.MemoryBytes, 256<<20)
	orElse(&c.Open, 16)
	orElse(&c.Idle, time.Minute)
	orElse(&c.Parallel, 4)
	return c
}

func orElse[T ~int | ~int64](field *T, fallback T) {
	if *field <= 0 {
		*field = fallback
	}
}

// For returns the databases of a session.
func (s *Store) For(id perdure.SessionID) tool.SQL { return port{store: s, session: id} }

// Remove removes all databases of a session, once no statement of it runs. One that has none is no error.
func (s *Store) Remove(ctx context.Context, id perdure.SessionID) error {
	return s.with(ctx, id, func(own *session) error {
		for name := range own.databases {
			s.shut(own, name)
		}
		if err := s.root.RemoveAll(string(id)); err != nil {
			return fmt.Errorf("%w: remove the databases of session %s: %w", perdure.Storage, id, err)
		}
		return nil
	})
}

// Close waits for the statements that run, and closes everything. What is asked for later is Unavailable.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	close(s.gone)
	for range cap(s.slots) { // nobody waits for a place longer than a statement takes
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

// with runs fn as the only user of a session, and in one of the places for statements.
func (s *Store) with(ctx context.Context, id perdure.SessionID, fn func(*session) error) error {
	own, err := s.enterTurn(ctx, id)
	if err != nil {
		return err
	}
	defer s.leave(id, own)
	defer func() { <-own.turn }()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.gone:
		return errClosed
	}
	select {
	case <-s.gone: // both were there to be had
		return errClosed
	default:
		return fn(own)
	}
}

func (s *Store) enter(id perdure.SessionID) *session {
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

func (s *Store) leave(id perdure.SessionID, own *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own.users--
	s.forget(id, own)
}

// forget drops a session that nobody uses and that holds nothing open. Called with mu held.
func (s *Store) forget(id perdure.SessionID, own *session) {
	if own.users == 0 && len(own.databases) == 0 {
		delete(s.sessions, id)
	}
}
