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

// Config configures Open. Only URL is required.
type Config struct {
	// URL is postgres://user:password@host:port/database?sslmode=…, or a keyword/value string of
	// libpq. Environment variables such as PGHOST fill in what it leaves out.
	URL string
	// Writers is the maximal number of connections for transactions. 0: 23, so that three processes
	// fit into the 97 that a server offers by default.
	Writers int
	// Readers is the maximal number of connections for views. 0: twice the processors, at least 4,
	// at most 8.
	Readers int
	// RetryTimeout is how long a transaction or view is retried while the database is unavailable
	// or other transactions conflict with it. 0: 30 s.
	RetryTimeout time.Duration
	// Poll is the interval at which watched sessions are read, in case a notification from another
	// process was lost. 0: 1 s.
	Poll time.Duration
	// Idle is the time after which the server ends a transaction whose process sends nothing. Such
	// a process may be paused, and holds locks. 0: 10 s.
	Idle time.Duration
	// ReadOnly opens for reading only: nothing is created or migrated, and InTx returns Conflict.
	ReadOnly bool
}

// Open opens a database, and migrates its schema unless it is opened for reading only.
//
// Invalid: the URL cannot be parsed. Conflict: a newer version wrote the database, or with ReadOnly
// an older one. NotFound: with ReadOnly, the database was never used. Unavailable: the database
// cannot be reached, or refuses the connection. ctx limits Open, not the store.
func Open(ctx context.Context, cfg Config) (_ *Store, err error) {
	cfg = cfg.withDefaults()
	parsed, err := pgx.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("%w database URL: %w", perdure.Invalid, err)
	}
	if err := cfg.prepare(ctx, parsed); err != nil {
		return nil, fmt.Errorf("open the database: %w", explain(err))
	}
	s := &Store{
		cfg: cfg, hub: store.NewHub(), origin: rand.Text(), listenConfig: listenerConfig(parsed),
		closing: make(chan struct{}), outbox: newOutbox(), subscriptions: newSubscriptions(),
	}
	s.writers = openPool(s.writerConfig(parsed), cfg.Writers)
	s.readers = openPool(cfg.poolConfig(parsed, cfg.view(), cfg.view()), cfg.Readers)
	s.startBackground()
	return s, nil
}

// prepare makes the database ready, over a connection without a statement timeout: a migration may
// take long.
func (cfg Config) prepare(ctx context.Context, parsed *pgx.ConnConfig) (err error) {
	db := openPool(cfg.connConfig(parsed), 2)
	defer func() { err = errors.Join(err, db.Close()) }()
	return prepare(ctx, db, cfg.ReadOnly)
}

func (cfg Config) withDefaults() Config {
	cfg.Writers, cfg.Readers = cmp.Or(cfg.Writers, 23), cmp.Or(cfg.Readers, min(max(4, 2*runtime.GOMAXPROCS(0)), 8))
	cfg.RetryTimeout, cfg.Poll, cfg.Idle = cmp.Or(cfg.RetryTimeout, 30*time.Second), cmp.Or(cfg.Poll, time.Second),
		cmp.Or(cfg.Idle, 10*time.Second)
	return cfg
}

// attempt limits one try of a transaction, so that a hanging connection leaves time for further
// tries.
func (cfg Config) attempt() time.Duration { return cfg.RetryTimeout / 3 }

// view limits one try of a view, which may have much to read.
func (cfg Config) view() time.Duration { return 2 * cfg.RetryTimeout }

// connConfig returns the configuration common to all connections of the store but the listener's.
func (cfg Config) connConfig(parsed *pgx.ConnConfig) *pgx.ConnConfig {
	c := parsed.Copy()
	c.RuntimeParams["application_name"] = applicationName
	// regardless of the server's settings
	c.RuntimeParams["statement_timeout"], c.RuntimeParams["idle_in_transaction_session_timeout"] = "0", "0"
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, cfg.attempt())
	return c
}

// writerConfig returns the configuration of the connections for writing. They know the current
// server era, and have the locks of the workers of this process.
func (s *Store) writerConfig(parsed *pgx.ConnConfig) *pgx.ConnConfig {
	c := s.cfg.poolConfig(parsed, s.cfg.Idle, s.cfg.attempt())
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		ctx, stop := context.WithTimeout(ctx, s.cfg.attempt())
		defer stop()
		if err := loadEra(ctx, conn); err != nil {
			return err
		}
		return s.lockWorkers(ctx, conn)
	}
	return c
}

// poolConfig returns the configuration of the connections of a pool. The server ends what a client
// left: a statement and a wait for a lock shortly before the client's own limit, and an idle
// transaction.
func (cfg Config) poolConfig(parsed *pgx.ConnConfig, idle, statement time.Duration) *pgx.ConnConfig {
	c := cfg.connConfig(parsed)
	c.RuntimeParams["idle_in_transaction_session_timeout"] = milliseconds(idle)
	c.RuntimeParams["statement_timeout"] = milliseconds(statement * 9 / 10)
	c.RuntimeParams["lock_timeout"] = milliseconds(statement * 8 / 10)
	return c
}

// applicationName is the name under which the server lists the store's connections.
const applicationName = "perdure"

func milliseconds(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }

// openPool makes a pool that keeps its connections. It opens none yet.
func openPool(cfg *pgx.ConnConfig, connections int) *sql.DB {
	db := sql.OpenDB(connector(cfg))
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db
}

// connector opens connections. A connection that broke while idle is noticed by its next user, who
// then runs again.
func connector(cfg *pgx.ConnConfig) driver.Connector {
	never := func(context.Context, stdlib.ShouldPingParams) bool { return false }
	return stdlib.GetConnector(*cfg, stdlib.OptionShouldPing(never))
}

// writeDialect returns the dialect of transactions. Views take no locks.
func (s *Store) writeDialect() sqlstore.Dialect {
	d := s.readDialect()
	d.Connect = s.connectWorker
	d.RowLock, d.SkipLocked, d.Lock, d.TryLock = ` FOR NO KEY UPDATE`, ` SKIP LOCKED`, lock, tryLock
	return d
}

func (s *Store) readDialect() sqlstore.Dialect {
	d := baseDialect()
	d.Disconnected = s.disconnectedWorkers
	return d
}

func baseDialect() sqlstore.Dialect {
	return sqlstore.Dialect{Goose: "postgres", Sequence: true, LockMigrations: true, Clock: clock, Explain: explain}
}

// clock is sqlstore.Dialect.Clock.
func clock(ctx context.Context, db sqlstore.DB) (time.Time, error) {
	c := db.(*connection)
	if err := c.start(ctx); err != nil {
		return time.Time{}, err
	}
	return c.transaction.now(), nil
}

// lockNumber returns the number of an advisory lock. Two names may share a number: then they wait
// for each other without need.
func lockNumber(name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("perdure/" + name)) // never fails
	return int64(h.Sum64())
}
