package sessionsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	sdk "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/perdure/perdure"
)

// maxValueBytes limits the length of a value, a row and a statement's text. Many SQL functions
// cannot be interrupted while they work on one value.
const maxValueBytes = 1 << 20

// pageBytes is the page size of a database.
const pageBytes = 4096

// database is an open database with one connection. Only the holder of the session's turn uses it.
type database struct {
	name   string
	policy policy
	db     *sql.DB
	conn   *sql.Conn

	// The fields below are guarded by Store.mu.
	busy bool
	used int64       // value of Store.uses at the last use
	idle *time.Timer // closes the database; nil: it was never idle
}

// connector opens connections whose statements are subject to a policy from the first one on. The
// driver offers no other way to install an authorizer that early.
type connector struct {
	driver *sdk.Driver
	dsn    string
	policy *policy
}

// Connect opens a connection and installs the authorizer.
func (c connector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	guarded, ok := conn.(sdk.AuthorizerRegisterer)
	if !ok {
		return nil, errors.Join(errors.New("the driver has no authorizer"), conn.Close())
	}
	err = guarded.RegisterAuthorizer(func(action sdk.AuthorizerActionCode, first, second, database,
		_ string) sdk.AuthorizerReturnCode {
		return c.policy.authorize(operation{action: action, first: first, second: second, temp: database == "temp"})
	})
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// Driver returns the driver.
func (c connector) Driver() driver.Driver { return c.driver }

// limits are the SQLite limits of a connection (SQ1). The number of pages is limited separately, by
// setPages.
func limits() map[int]int {
	return map[int]int{
		lib.SQLITE_LIMIT_LENGTH:              maxValueBytes,
		lib.SQLITE_LIMIT_SQL_LENGTH:          maxValueBytes,
		lib.SQLITE_LIMIT_COLUMN:              100, // each may hold a value of maximal length
		lib.SQLITE_LIMIT_EXPR_DEPTH:          200,
		lib.SQLITE_LIMIT_COMPOUND_SELECT:     100,
		lib.SQLITE_LIMIT_VDBE_OP:             100_000,
		lib.SQLITE_LIMIT_FUNCTION_ARG:        201, // a number, and two for each column
		lib.SQLITE_LIMIT_ATTACHED:            0,
		lib.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200, // LIKE takes time proportional to the product of both lengths
		lib.SQLITE_LIMIT_VARIABLE_NUMBER:     1000,
		lib.SQLITE_LIMIT_TRIGGER_DEPTH:       20,
		lib.SQLITE_LIMIT_WORKER_THREADS:      0,
	}
}

// openDatabase opens a database file. An empty file name opens a database in memory that is gone
// when it is closed.
func (s *Store) openDatabase(ctx context.Context, name, file string) (*database, error) {
	d := &database{name: name}
	dsn := url.URL{Scheme: "file", Opaque: ":memory:", RawQuery: pragmas().Encode()}
	if file != "" {
		dsn.Opaque, dsn.Path = "", filepath.Join(s.cfg.Dir, file)
	}
	d.db = sql.OpenDB(connector{driver: s.driver, dsn: dsn.String(), policy: &d.policy})
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: open session database: %w", perdure.Storage, err), d.db.Close())
	}
	d.conn = conn
	for id, limit := range limits() {
		if _, err := sdk.Limit(conn, id, limit); err != nil {
			return nil, errors.Join(fmt.Errorf("set limits of session database: %w", err), d.close())
		}
	}
	return d, nil
}

// pragmas are the settings of every connection. The rollback journal is deleted after each
// transaction, so that a database is a single file. Full auto-vacuum removes deleted data from the
// file, so that it no longer counts against the quota.
func pragmas() url.Values {
	return url.Values{"_defensive": {"1"}, "_dqs": {"0"}, "_pragma": {
		"auto_vacuum(FULL)", "busy_timeout(1000)", "journal_mode(DELETE)", "synchronous(FULL)", "fullfsync(1)",
		"foreign_keys(1)", "temp_store(MEMORY)", "mmap_size(0)",
	}}
}

func (d *database) close() error {
	if d.idle != nil {
		d.idle.Stop()
	}
	return errors.Join(d.conn.Close(), d.db.Close())
}

// runInternal runs a statement of the runtime itself. It runs even if ctx is canceled.
func (d *database) runInternal(ctx context.Context, text string) error {
	d.policy.begin(internalMode)
	_, err := d.conn.ExecContext(context.WithoutCancel(ctx), text)
	return err
}

// queryNumber runs a statement of the runtime itself that returns one number. It runs even if ctx
// is canceled.
func (d *database) queryNumber(ctx context.Context, text string) (n int64, err error) {
	d.policy.begin(internalMode)
	err = d.conn.QueryRowContext(context.WithoutCancel(ctx), text).Scan(&n)
	return n, err
}

// setPages limits the number of pages of the database. A database that already has more keeps them.
func (d *database) setPages(ctx context.Context, n int64) error {
	_, err := d.queryNumber(ctx, "PRAGMA max_page_count = "+strconv.FormatInt(max(n, 1), 10))
	return err
}

// use returns an open database of a session and a function that releases it. The caller holds the
// session's turn.
func (s *Store) use(ctx context.Context, id perdure.SessionID, own *session, name string) (*database, func(), error) {
	s.mu.Lock()
	d := own.databases[name]
	if d != nil {
		d.busy = true
	}
	s.mu.Unlock()
	if d == nil {
		opened, err := s.openDatabase(ctx, name, fileOf(id, name))
		if err != nil {
			return nil, nil, err
		}
		d = opened
		s.mu.Lock()
		d.busy = true
		own.databases[name] = d
		s.open[d] = true
		s.mu.Unlock()
	}
	return d, func() { s.release(id, own, d) }, nil
}

// release releases a database. It is closed after it has been idle for Config.Idle, or by evict.
func (s *Store) release(id perdure.SessionID, own *session, d *database) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open[d] {
		return // closed meanwhile
	}
	s.uses++
	d.busy, d.used = false, s.uses
	if d.idle != nil {
		d.idle.Stop()
	}
	used := d.used
	d.idle = time.AfterFunc(s.cfg.IdleTimeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[d] && !d.busy && d.used == used {
			_ = s.closeAndForget(own, d) // nothing is pending on it
			s.forget(id, own)
		}
	})
	s.evict()
}

// evict closes the least recently used idle databases until at most Config.Open are open. The
// caller holds s.mu.
func (s *Store) evict() {
	for len(s.open) > s.cfg.MaxIdleOpen {
		var oldest *database
		for d := range s.open {
			if !d.busy && (oldest == nil || d.used < oldest.used) {
				oldest = d
			}
		}
		if oldest == nil {
			return
		}
		for id, own := range s.sessions {
			if own.databases[oldest.name] == oldest {
				_ = s.closeAndForget(own, oldest) // nothing is pending on it
				s.forget(id, own)
			}
		}
	}
}

// closeDatabase closes a database of a session if it is open. The caller holds the session's turn.
func (s *Store) closeDatabase(own *session, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := own.databases[name]; d != nil {
		_ = s.closeAndForget(own, d) // it is no longer needed
	}
}

// closeAndForget closes a database and forgets it. The caller holds s.mu.
func (s *Store) closeAndForget(own *session, d *database) error {
	delete(own.databases, d.name)
	delete(s.open, d)
	return d.close()
}
