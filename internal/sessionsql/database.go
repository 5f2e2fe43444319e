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

// maxValueBytes is how long a value, a row or the text of a statement may be. Many functions do not look at the clock
// while they work on one value.
const maxValueBytes = 1 << 20

// pageBytes is the size of a page of a database.
const pageBytes = 4096

// database is an open database: one connection, used by whoever has the session's turn.
type database struct {
	name   string
	policy policy
	db     *sql.DB
	conn   *sql.Conn

	// What follows is guarded by Store.mu.
	busy bool
	used int64       // when it was used last, counted
	idle *time.Timer // closes it; nil: it was never idle
}

// connector opens connections that are under a policy from the first statement on. The driver has no other.
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
	judged, ok := conn.(sdk.AuthorizerRegisterer)
	if !ok {
		return nil, errors.Join(errors.New("the driver has no authorizer"), conn.Close())
	}
	err = judged.RegisterAuthorizer(func(action sdk.AuthorizerActionCode, first, second, database, _ string) sdk.AuthorizerReturnCode {
		return c.policy.judge(operation{action: action, first: first, second: second, temp: database == "temp"})
	})
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// Driver returns the driver.
func (c connector) Driver() driver.Driver { return c.driver }

// limits are those of a connection (SQ1), beside the number of its pages.
func limits() map[int]int {
	return map[int]int{
		lib.SQLITE_LIMIT_LENGTH:              maxValueBytes,
		lib.SQLITE_LIMIT_SQL_LENGTH:          maxValueBytes,
		lib.SQLITE_LIMIT_COLUMN:              100, // each may be a value of full length
		lib.SQLITE_LIMIT_EXPR_DEPTH:          200,
		lib.SQLITE_LIMIT_COMPOUND_SELECT:     100,
		lib.SQLITE_LIMIT_VDBE_OP:             100_000,
		lib.SQLITE_LIMIT_FUNCTION_ARG:        201, // a number, and two for each column
		lib.SQLITE_LIMIT_ATTACHED:            0,
		lib.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200, // the time of LIKE grows with the product of both lengths
		lib.SQLITE_LIMIT_VARIABLE_NUMBER:     1000,
		lib.SQLITE_LIMIT_TRIGGER_DEPTH:       20,
		lib.SQLITE_LIMIT_WORKER_THREADS:      0,
	}
}

// openDatabase opens a file; an empty one opens a database in memory that is gone when it is closed.
func (s *Store) openDatabase(ctx context.Context, name, file string) (*database, error) {
	d := &database{name: name}
	dsn := url.URL{Scheme: "file", Opaque: ":memory:", RawQuery: pragmas().Encode()}
	if file != "" {
		dsn.Opaque, dsn.Path = "", filepath.Join(s.cfg.Dir, file)
	}
	d.db = sql.OpenDB(connector{driver: s.driver, dsn: dsn.String(), policy: &d.policy})
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: open a database of a session: %w", perdure.Storage, err), d.db.Close())
	}
	d.conn = conn
	for id, limit := range limits() {
		if _, err := sdk.Limit(conn, id, limit); err != nil {
			return nil, errors.Join(fmt.Errorf("limit a database of a session: %w", err), d.close())
		}
	}
	return d, nil
}

// pragmas are those of every connection. The journal is one beside the file that goes with each transaction, so that a
// database is one file; and what is deleted leaves the file, so that it counts no more.
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

// own runs a statement of the runtime's, whatever became of ctx.
func (d *database) own(ctx context.Context, text string) error {
	d.policy.begin(ours)
	_, err := d.conn.ExecContext(context.WithoutCancel(ctx), text)
	return err
}

// number reads a number with a statement of the runtime's.
func (d *database) number(ctx context.Context, text string) (n int64, err error) {
	d.policy.begin(ours)
	err = d.conn.QueryRowContext(context.WithoutCancel(ctx), text).Scan(&n)
	return n, err
}

// setPages says how many pages the database may have. It keeps those that it has.
func (d *database) setPages(ctx context.Context, n int64) error {
	_, err := d.number(ctx, "PRAGMA max_page_count = "+strconv.FormatInt(max(n, 1), 10))
	return err
}

// use returns an open database of a session, for whoever has its turn, and what gives it back.
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
	return d, func() { s.giveBack(id, own, d) }, nil
}

// giveBack lets a database be closed: when it was idle for long, or as the one used longest ago of too many.
func (s *Store) giveBack(id perdure.SessionID, own *session, d *database) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open[d] {
		return // shut meanwhile
	}
	s.uses++
	d.busy, d.used = false, s.uses
	if d.idle != nil {
		d.idle.Stop()
	}
	used := d.used
	d.idle = time.AfterFunc(s.cfg.Idle, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[d] && !d.busy && d.used == used {
			_ = s.drop(own, d) // nothing was in it
			s.forget(id, own)
		}
	})
	s.evict()
}

// evict closes databases that nobody uses until there are no more than may be. Called with mu held.
func (s *Store) evict() {
	for len(s.open) > s.cfg.Open {
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
				_ = s.drop(own, oldest) // nothing was in it
				s.forget(id, own)
			}
		}
	}
}

// shut closes a database of a session, whoever has its turn. One that is not open is no error.
func (s *Store) shut(own *session, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := own.databases[name]; d != nil {
		_ = s.drop(own, d) // it is not needed any more
	}
}

// drop closes a database. Called with mu held.
func (s *Store) drop(own *session, d *database) error {
	delete(own.databases, d.name)
	delete(s.open, d)
	return d.close()
}
