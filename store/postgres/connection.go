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

// The statements around a transaction. Each is one round trip; the answer of BEGIN includes the
// clock and, for a write, the transaction id and the process id of the backend. To ask for the id
// makes the server assign one, by which the outcome of the transaction can be read later (see
// settle).
const (
	beginWrite = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT ` + clockNow +
		`, pg_current_xact_id(), pg_backend_pid()`
	beginRead = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT ` + clockNow + `, 0, 0`
	commit    = `COMMIT`
	rollback  = `ROLLBACK`

	clockNow = `CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)`

	lockAlone  = `SELECT pg_advisory_xact_lock($1), ` + clockNow
	lockShared = `SELECT pg_advisory_xact_lock_shared($1), ` + clockNow
	lockIfFree = `SELECT pg_try_advisory_xact_lock($1), ` + clockNow
)

// closeLimit limits how long closing a connection may take.
const closeLimit = 5 * time.Second

// connection is a connection with a transaction, which begins with its first statement. One
// goroutine at a time uses a connection.
type connection struct {
	*sql.Conn
	begin       string      // begins the transaction; empty: it was sent
	transaction transaction // zero before
}

var _ sqlstore.DB = (*connection)(nil)

// transaction is what the server returned when a transaction began.
type transaction struct {
	clock   time.Time // the database's clock
	at      time.Time // this process's clock when the answer arrived
	number  string    // of a write: its id, an xid8
	era     string    // of a write: the key of the server era in which it has that id
	backend string    // the server process that runs it
}

// now returns the database's clock: its value at the beginning, plus the time since.
func (t transaction) now() time.Time { return t.clock.Add(time.Since(t.at)) }

// connect takes a connection from a pool, for a transaction that the statement begin starts.
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

// start begins the transaction, unless it has begun.
func (c *connection) start(ctx context.Context) error {
	if c.begin == "" {
		return nil
	}
	_, err := c.startWith(ctx, "")
	return err
}

// startWith begins the transaction and runs a statement in it, in one round trip. It returns the
// row of the statement, or the row of BEGIN if there is none.
func (c *connection) startWith(ctx context.Context, statement string) (answer [][]byte, err error) {
	begin := c.begin
	c.begin = ""
	results, err := c.execSimple(ctx, begin+"; "+statement)
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	c.transaction.at = time.Now()
	row := results[1].Rows[0]
	if c.transaction.clock, err = clockOf(row[0]); err != nil {
		return nil, err
	}
	c.transaction.number, c.transaction.backend = string(row[1]), string(row[2])
	return results[len(results)-1].Rows[0], nil
}

// clockOf parses the database's clock.
func clockOf(text []byte) (time.Time, error) {
	us, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return time.UnixMicro(us), nil
}

// execSimple runs statements without parameters in one round trip.
func (c *connection) execSimple(ctx context.Context, text string) (results []*pgconn.Result, err error) {
	err = c.Raw(func(conn any) error {
		pg := conn.(*stdlib.Conn).Conn().PgConn()
		results, err = pg.Exec(ctx, text).ReadAll()
		c.transaction.era, _ = pg.CustomData()[eraOfServer].(string)
		if err != nil && pg.IsClosed() { // even if the server sent an error: it may have run the statement
			err = fmt.Errorf("%w: %w", errLost, err)
		}
		return err
	})
	return results, err
}

// undo rolls a transaction back and returns the connection to its pool, or closes it if the server
// does not answer.
func (c *connection) undo() {
	ctx, stop := context.WithTimeout(context.Background(), closeLimit)
	defer stop()
	if c.begin != "" { // the transaction has not begun
		c.release()
		return
	}
	if _, err := c.execSimple(ctx, rollback); err != nil {
		c.discard() // the server then ends the transaction
		return
	}
	c.release()
}

// release returns the connection to its pool. A connection with an open transaction is closed
// instead, so that its locks are released.
func (c *connection) release() {
	_ = c.Raw(func(conn any) error {
		if conn.(*stdlib.Conn).Conn().PgConn().TxStatus() != 'I' {
			return driver.ErrBadConn // this ends the connection
		}
		return nil
	})
	_ = c.Close() // its only error is that it was closed before
}

// discard closes the connection for good. An ordinary close would return it to the pool.
func (c *connection) discard() {
	_ = c.Raw(func(any) error { return driver.ErrBadConn }) // this ends the connection
	_ = c.Close()
}

// lock is sqlstore.Dialect.Lock. If it is the first statement of a transaction, as the lease of a
// worker usually is, it is sent along with BEGIN.
func lock(ctx context.Context, db sqlstore.DB, name string, shared bool) (at time.Time, err error) {
	query := lockAlone
	if shared {
		query = lockShared
	}
	if c := db.(*connection); c.begin != "" {
		return c.startLocked(ctx, strings.Replace(query, "$1", strconv.FormatInt(lockNumber(name), 10), 1))
	}
	_, at, err = runLock(ctx, db, query, name)
	return at, err
}

// tryLock is sqlstore.Dialect.TryLock.
func tryLock(ctx context.Context, db sqlstore.DB, name string) (has bool, at time.Time, err error) {
	answer, at, err := runLock(ctx, db, lockIfFree, name)
	has, _ = answer.(bool)
	return has, at, err
}

// runLock runs one of the lock statements, and returns its answer and the database's clock.
func runLock(ctx context.Context, db sqlstore.DB, query, name string) (answer any, at time.Time, err error) {
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

// startLocked begins the transaction with a lock. The clock is read under the lock, since the
// transaction may have waited for it.
func (c *connection) startLocked(ctx context.Context, query string) (time.Time, error) {
	answer, err := c.startWith(ctx, query)
	if err != nil {
		return time.Time{}, err
	}
	at, err := clockOf(answer[1])
	if err == nil {
		c.transaction.clock = at
	}
	return at, err
}
