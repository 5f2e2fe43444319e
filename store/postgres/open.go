package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"hash/fnv"
	"runtime"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlstore"
)

// Config says what to open. Only URL is required.
type Config struct {
	URL      string        // postgres://user:password@host:port/database?sslmode=…, or the words of libpq; what it leaves out comes from PGHOST and its like
	Writers  int           // connections for transactions; 0: 23, so that three processes have room in the 97 that a server gives them by default
	Readers  int           // connections for views; 0: twice the processors, at least 4, at most 8
	Patience time.Duration // how long a transaction or view is tried while the database is away or in dispute; 0: 30 s
	Poll     time.Duration // how often watched sessions are looked at, in case a word from another process was lost; 0: 1 s
	Idle     time.Duration // after which the server ends a transaction whose process says nothing: it may be paused, and holds locks; 0: 10 s
	ReadOnly bool          // only look: nothing is made or brought up to date, and InTx answers Conflict
}

// Open opens a database, and brings its schema up to date unless it is only looked at.
//
// Invalid: the URL cannot be read. Conflict: a newer version wrote it, or with ReadOnly an older one. NotFound: with ReadOnly,
// nobody has used it yet. Unavailable: it cannot be reached, or refuses us. ctx ends the opening, not the store.
func Open(ctx context.Context, cfg Config) (_ *Store, err error) {
	cfg = cfg.filled()
	parsed, err := pgx.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("%w database URL: %w", perdure.Invalid, err)
	}
	if err := cfg.prepare(ctx, parsed); err != nil {
		return nil, fmt.Errorf("open the database: %w", explain(err))
	}
	s := &Store{
		cfg: cfg, hub: store.NewHub(), origin: rand.Text(), listens: forListening(parsed),
		writers: openPool(cfg.transactions(parsed), cfg.Writers),
		readers: openPool(cfg.session(parsed, cfg.view(), cfg.view()), cfg.Readers),
		closing: make(chan struct{}), outbox: newOutbox(),
	}
	s.accompany()
	return s, nil
}

// prepare makes the database ready, over a connection on which a statement may take as long as it needs: a migration does.
func (cfg Config) prepare(ctx context.Context, parsed *pgx.ConnConfig) (err error) {
	db := openPool(cfg.named(parsed), 2)
	defer func() { err = errors.Join(err, db.Close()) }()
	return prepare(ctx, db, cfg.ReadOnly)
}

func (cfg Config) filled() Config {
	cfg.Writers, cfg.Readers = cmp.Or(cfg.Writers, 23), cmp.Or(cfg.Readers, min(max(4, 2*runtime.GOMAXPROCS(0)), 8))
	cfg.Patience, cfg.Poll, cfg.Idle = cmp.Or(cfg.Patience, 30*time.Second), cmp.Or(cfg.Poll, time.Second), cmp.Or(cfg.Idle, 10*time.Second)
	return cfg
}

// attempt bounds one try of a transaction, so that one whose connection leads nowhere leaves time for others.
func (cfg Config) attempt() time.Duration { return cfg.Patience / 3 }

// view bounds one try of a view, which may have much to read.
func (cfg Config) view() time.Duration { return 2 * cfg.Patience }

// named is how all connections of the store but the listener speak with the server.
func (cfg Config) named(parsed *pgx.ConnConfig) *pgx.ConnConfig {
	c := parsed.Copy()
	c.RuntimeParams["application_name"] = applicationName
	c.RuntimeParams["statement_timeout"], c.RuntimeParams["idle_in_transaction_session_timeout"] = "0", "0" // whatever the server's are
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, cfg.attempt())
	return c
}

// transactions is session for those that write. They know in which life of the server they are.
func (cfg Config) transactions(parsed *pgx.ConnConfig) *pgx.ConnConfig {
	c := cfg.session(parsed, cfg.Idle, cfg.attempt())
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		ctx, stop := context.WithTimeout(ctx, cfg.attempt())
		defer stop()
		return noteLife(ctx, conn)
	}
	return c
}

// session is how the connections of a pool speak with the server. Whatever the client forgets, the server ends: a statement
// and a wait for a lock a little before the client would give them up, and a transaction in which nothing is said.
func (cfg Config) session(parsed *pgx.ConnConfig, idle, statement time.Duration) *pgx.ConnConfig {
	c := cfg.named(parsed)
	c.RuntimeParams["idle_in_transaction_session_timeout"] = milliseconds(idle)
	c.RuntimeParams["statement_timeout"] = milliseconds(statement * 9 / 10)
	c.RuntimeParams["lock_timeout"] = milliseconds(statement * 8 / 10)
	return c
}

// applicationName is how the server lists the store's connections.
const applicationName = "perdure"

func milliseconds(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }

// openPool makes a pool that keeps its connections. It opens none yet.
func openPool(cfg *pgx.ConnConfig, connections int) *sql.DB {
	db := sql.OpenDB(connector(cfg))
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db
}

// connector opens connections. One that broke while nobody used it is found out by the next that does: it runs again.
func connector(cfg *pgx.ConnConfig) driver.Connector {
	never := func(context.Context, stdlib.ShouldPingParams) bool { return false }
	return stdlib.GetConnector(*cfg, stdlib.OptionShouldPing(never))
}

// writing is what transactions do not share with SQLite. Views lock nothing.
func writing() sqlstore.Dialect {
	d := reading()
	d.RowLock, d.SkipLocked, d.Lock, d.TryLock = ` FOR NO KEY UPDATE`, ` SKIP LOCKED`, lock, tryLock
	return d
}

func reading() sqlstore.Dialect {
	return sqlstore.Dialect{Goose: "postgres", Sequence: true, LockMigrations: true, Clock: clock, Explain: explain}
}

// clock is sqlstore.Dialect.Clock.
func clock(ctx context.Context, db sqlstore.DB) (time.Time, error) {
	c := db.(*connection)
	if err := c.start(ctx); err != nil {
		return time.Time{}, err
	}
	return c.begun.now(), nil
}

// lockNumber is the number by which the server knows a lock without a row. Two names may share one: then they wait for each
// other without need.
func lockNumber(name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("perdure/" + name)) // it never fails
	return int64(h.Sum64())
}
