package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/perdure/perdure/store/sqlstore"
)

// The statements around a transaction. Each is one round trip; what is asked beside BEGIN comes with its answer. To ask for
// its number makes a transaction have one, by which its outcome can be asked later (settle).
const (
	beginWrite = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT ` + clockNow + `, pg_current_xact_id(), pg_backend_pid()`
	beginRead  = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT ` + clockNow + `, 0, 0`
	commit     = `COMMIT`
	rollback   = `ROLLBACK`

	clockNow = `CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)`

	lockAlone  = `SELECT pg_advisory_xact_lock($1), ` + clockNow
	lockShared = `SELECT pg_advisory_xact_lock_shared($1), ` + clockNow
	lockIfFree = `SELECT pg_try_advisory_xact_lock($1), ` + clockNow
)

// closeLimit bounds how long a goodbye to the server may take.
const closeLimit = 5 * time.Second

// connection is one held connection in a transaction, which begins with its first statement. It is used by one goroutine at a time.
type connection struct {
	*sql.Conn
	begin string      // what begins the transaction; empty: it was sent
	begun transaction // zero before
}

var _ sqlstore.DB = (*connection)(nil)

// transaction is what the server said when a transaction began.
type transaction struct {
	clock   time.Time // of the database
	at      time.Time // by this process, when the answer came
	number  string    // of a writing one: an xid8
	life    string    // of a writing one: the word of the server's life in which it has that number
	backend string    // the process that carries it
}

// now is the database's clock: what it said at the beginning, and how long ago that was.
func (t transaction) now() time.Time { return t.clock.Add(time.Since(t.at)) }

// connect takes a connection from a pool, for a transaction that begins so.
func connect(ctx context.Context, db *sql.DB, begin string) (*connection, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &connection{Conn: conn, begin: begin}, nil
}

// ExecContext runs a statement in the transaction.
func (c *connection) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := c.start(ctx); err != nil {
		return nil, err
	}
	return c.Conn.ExecContext(ctx, query, args...)
}

// QueryContext runs a query in the transaction.
func (c *connection) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := c.start(ctx); err != nil {
		return nil, err
	}
	return c.Conn.QueryContext(ctx, query, args...)
}

// start begins the transaction, if it has not begun.
func (c *connection) start(ctx context.Context) error {
	if c.begin == "" {
		return nil
	}
	_, err := c.startWith(ctx, "")
	return err
}

// startWith begins the transaction and runs a statement in it, in one round trip. It answers the statement's row, or with none that
// of the beginning.
func (c *connection) startWith(ctx context.Context, statement string) (answer [][]byte, err error) {
	begin := c.begin
	c.begin = ""
	results, err := c.simply(ctx, begin+"; "+statement)
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	c.begun.at = time.Now()
	row := results[1].Rows[0]
	if c.begun.clock, err = clockOf(row[0]); err != nil {
		return nil, err
	}
	c.begun.number, c.begun.backend = string(row[1]), string(row[2])
	return results[len(results)-1].Rows[0], nil
}

// clockOf reads the database's clock as the server writes it.
func clockOf(text []byte) (time.Time, error) {
	us, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return time.UnixMicro(us), nil
}

// simply runs statements without parameters in one round trip.
func (c *connection) simply(ctx context.Context, text string) (results []*pgconn.Result, err error) {
	err = c.Raw(func(conn any) error {
		pg := conn.(*stdlib.Conn).Conn().PgConn()
		results, err = pg.Exec(ctx, text).ReadAll()
		c.begun.life, _ = pg.CustomData()[lifeOfServer].(string)
		if err != nil && pg.IsClosed() { // also where the server said why: it may have done what it was asked
			err = fmt.Errorf("%w: %w", errLost, err)
		}
		return err
	})
	return results, err
}

// undo ends a transaction without a trace and gives the connection back, or away where it does not answer.
func (c *connection) undo() {
	ctx, stop := context.WithTimeout(context.Background(), closeLimit)
	defer stop()
	if c.begin != "" { // nothing was begun
		c.release()
		return
	}
	if _, err := c.simply(ctx, rollback); err != nil {
		c.discard() // the server ends what was left open on it
		return
	}
	c.release()
}

// release gives the connection back to its pool. One in which a transaction was left open is closed, so that its locks go.
func (c *connection) release() {
	_ = c.Raw(func(conn any) error {
		if conn.(*stdlib.Conn).Conn().PgConn().TxStatus() != 'I' {
			return driver.ErrBadConn // this is what ends it
		}
		return nil
	})
	_ = c.Close() // it says only that it was closed before
}

// discard closes the connection for good: closed in the ordinary way it would come back from the pool.
func (c *connection) discard() {
	_ = c.Raw(func(any) error { return driver.ErrBadConn }) // this is what ends it
	_ = c.Close()
}

// lock is sqlstore.Dialect.Lock. Where it is the first that a transaction asks for, which the lease of a worker mostly is, it comes
// with the beginning.
func lock(ctx context.Context, db sqlstore.DB, name string, shared bool) (at time.Time, err error) {
	query := lockAlone
	if shared {
		query = lockShared
	}
	if c := db.(*connection); c.begin != "" {
		return c.startLocked(ctx, strings.Replace(query, "$1", strconv.FormatInt(lockNumber(name), 10), 1))
	}
	_, at, err = askLock(ctx, db, query, name)
	return at, err
}

// tryLock is sqlstore.Dialect.TryLock.
func tryLock(ctx context.Context, db sqlstore.DB, name string) (has bool, at time.Time, err error) {
	answer, at, err := askLock(ctx, db, lockIfFree, name)
	has, _ = answer.(bool)
	return has, at, err
}

// askLock runs one of the statements of locks, and returns its answer and the database's clock.
func askLock(ctx context.Context, db sqlstore.DB, query, name string) (answer any, at time.Time, err error) {
	rows, err := db.QueryContext(ctx, query, lockNumber(name))
	if err != nil {
		return nil, at, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var us int64
		if err := rows.Scan(&answer, &us); err != nil {
			return nil, at, err
		}
		at = time.UnixMicro(us)
	}
	return answer, at, rows.Err()
}

// startLocked begins the transaction with a lock. The database's clock is that under the lock, which may have been waited for.
func (c *connection) startLocked(ctx context.Context, query string) (time.Time, error) {
	answer, err := c.startWith(ctx, query)
	if err != nil {
		return time.Time{}, err
	}
	at, err := clockOf(answer[1])
	if err == nil {
		c.begun.clock = at
	}
	return at, err
}
