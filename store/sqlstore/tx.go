// Package sqlstore is the SQL of the store, once, for SQLite and Postgres: one noun a file, each statement
// a constant beside its method.
//
// It may import the root, agent, store, and goose for the migrations. The one thing to know: a [Tx] runs inside a
// transaction that an adapter began and will end; what the two databases do not share is a [Dialect].
// Whatever came from outside is BYTEA and travels as []byte, a moment is a BIGINT of microseconds. An order is by BIGINT, by
// BYTEA, or by ids of one kind, which are a fixed word and lower-case hex digits: every collation has those in the same order.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// DB is where a Tx runs its statements: a connection, a transaction of database/sql, or something that
// prepares each text once.
type DB interface {
	// ExecContext runs a statement that returns no rows.
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	// QueryContext runs a statement that returns rows. A Tx closes them before it runs the next one.
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Tx is one transaction, or one read-only snapshot when the adapter hands it out as a store.Reader.
// It is used by one goroutine at a time and only while the adapter's transaction lasts.
type Tx struct {
	ctx      context.Context // of the whole transaction: the methods of store.Tx have none
	db       DB
	dialect  Dialect
	now      time.Time // zero until somebody asks, or a lock says it
	locks    locks
	appended []perdure.SessionID
	budgeted *bool // whether there is any budget; nil: nobody asked
	failure  error
}

var _ store.Tx = (*Tx)(nil)

// New returns a Tx over db. ctx ends the statements, where the driver lets it.
func New(ctx context.Context, db DB, dialect Dialect) *Tx {
	return &Tx{ctx: ctx, db: db, dialect: dialect}
}

// Now is the database's clock, read once: one transaction has one now. It is zero when the clock could not
// be read, and then Failure says so.
func (tx *Tx) Now() time.Time {
	if tx.now.IsZero() && tx.failure == nil {
		now, err := tx.dialect.Clock(tx.ctx, tx.db)
		if err != nil {
			_ = tx.failed(err) // kept in the Tx, whose next statement answers it
			return time.Time{}
		}
		tx.now = micro(now)
	}
	return tx.now
}

// Failure returns the first error of the database itself, in the words of Dialect.Explain. After one the Tx
// runs no more statements, and the adapter must roll back whatever fn returned: SQLite may have ended the
// transaction already, and what came next would be committed on its own.
func (tx *Tx) Failure() error { return tx.failure }

// Appended returns the sessions whose journals grew or went, so that the adapter can tell their watchers after the commit.
func (tx *Tx) Appended() []perdure.SessionID { return tx.appended }

func (tx *Tx) noteAppended(id perdure.SessionID) {
	if !slices.Contains(tx.appended, id) {
		tx.appended = append(tx.appended, id)
	}
}

// failed keeps the first error of the database and gives it its kind.
func (tx *Tx) failed(err error) error {
	err = tx.dialect.Explain(err)
	if tx.failure == nil {
		tx.failure = err
	}
	return err
}

// exec runs a statement and returns the number of rows that it changed.
func (tx *Tx) exec(query string, args ...any) (int64, error) {
	if tx.failure != nil {
		return 0, tx.failure
	}
	result, err := tx.db.ExecContext(tx.ctx, query, args...)
	if err != nil {
		return 0, tx.failed(err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return 0, tx.failed(err)
	}
	return n, nil
}

// row is the row that a query stands on.
type row interface {
	Scan(into ...any) error
}

// list reads all rows of a query. An error of scan is about its row, not about the database.
func list[T any](tx *Tx, scan func(row) (T, error), query string, args ...any) (found []T, err error) {
	err = each(tx, func(r row) (bool, error) {
		item, err := scan(r)
		found = append(found, item)
		return true, err
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return found, nil
}

// each calls fn with the rows of a query, until there are no more or fn says that it wants no more.
func each(tx *Tx, fn func(row) (more bool, err error), query string, args ...any) (err error) {
	if tx.failure != nil {
		return tx.failure
	}
	rows, err := tx.db.QueryContext(tx.ctx, query, args...)
	if err != nil {
		return tx.failed(err)
	}
	defer func() {
		if closed := rows.Close(); closed != nil && err == nil {
			err = tx.failed(closed)
		}
	}()
	for rows.Next() {
		if more, err := fn(rows); err != nil || !more {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return tx.failed(err)
	}
	return nil
}

// one reads the only row of a query. NotFound: there is none.
func one[T any](tx *Tx, scan func(row) (T, error), query string, args ...any) (T, error) {
	found, err := list(tx, scan, query, args...)
	if err != nil {
		var none T
		return none, err
	}
	if len(found) == 0 {
		var none T
		return none, perdure.NotFound
	}
	return found[0], nil
}

// number scans a row of one number.
func number(r row) (int64, error) {
	var n int64
	err := r.Scan(&n)
	return n, err
}

// content scans a row of one BYTEA.
func content(r row) ([]byte, error) {
	var b []byte
	err := r.Scan(&b)
	return b, err
}

// missing reports whether err says only that there is no row.
func missing(err error) bool { return errors.Is(err, perdure.NotFound) }

// Where several transactions write at once, each locks what it reads, so that two that would be wrong together wait for
// one another. What belongs to a session stands under the lock of the session's row, which is taken before any other
// row's: so most transactions meet there, and few meet in another order. Nothing here does anything where RowLock is empty.

// The statements of locks.
const (
	holdSession   = `SELECT epoch FROM session WHERE id = $1`
	sessionOfTask = `SELECT session_id FROM task WHERE id = $1`
	sessionOfAsk  = `SELECT session_id FROM approval WHERE id = $1`
)

// positionNext is the next position where there is a sequence.
const positionNext = `nextval('row_position')`

// locks is what a transaction holds. The zero value holds nothing.
type locks struct {
	sessions []perdure.SessionID
	tasks    []perdure.TaskID // whose sessions are held
	names    []lockName
	last     map[perdure.SessionID]int64 // the last seq, of sessions that were locked with it; nil: of none
}

// lockName is a lock without a row, and how it is held.
type lockName struct {
	name   string
	shared bool
}

// locked makes a SELECT one that locks its rows.
func (tx *Tx) locked(query string) string { return query + tx.dialect.RowLock }

// alone reports that nobody else writes, or that this transaction does not.
func (tx *Tx) alone() bool { return tx.dialect.RowLock == "" }

// placed is the INSERT for this database: own counts its position from the rows that are there, next takes it from the sequence.
func (tx *Tx) placed(own, next string) string {
	if tx.dialect.Sequence {
		return next
	}
	return own
}

// hold locks a session: its row or, where it has none, its name. An empty id is no session.
func (tx *Tx) hold(id perdure.SessionID) error {
	if tx.alone() || id == "" || slices.Contains(tx.locks.sessions, id) {
		return nil
	}
	_, err := one(tx, number, tx.locked(holdSession), id)
	if missing(err) {
		if err = tx.lockUnmade(id); err == nil {
			_, err = one(tx, number, tx.locked(holdSession), id) // who had the name may have added the row
		}
	}
	if err != nil && !missing(err) {
		return fmt.Errorf("hold session %s: %w", id, err)
	}
	tx.held(id)
	return nil
}

// lockUnmade locks the name of a session that has no row: whoever makes it one takes turns with whoever does without.
func (tx *Tx) lockUnmade(id perdure.SessionID) error { return tx.lock("session/"+string(id), false) }

// held notes that a statement has locked a session's row.
func (tx *Tx) held(id perdure.SessionID) {
	if !tx.alone() && !slices.Contains(tx.locks.sessions, id) {
		tx.locks.sessions = append(tx.locks.sessions, id)
	}
}

// holdTask locks the session of a task. An empty session is to be looked up; a task that is not there has none.
func (tx *Tx) holdTask(session perdure.SessionID, id perdure.TaskID) (err error) {
	if tx.alone() || session == "" && slices.Contains(tx.locks.tasks, id) {
		return nil
	}
	if session == "" {
		session, err = one(tx, name[perdure.SessionID], sessionOfTask, id)
	}
	switch {
	case missing(err):
		return nil
	case err != nil:
		return fmt.Errorf("task %s: %w", id, err)
	}
	tx.locks.tasks = append(tx.locks.tasks, id)
	return tx.hold(session)
}

// lock takes a lock without a row, once. One that is held alone is held shared, too.
func (tx *Tx) lock(name string, shared bool) error {
	has := slices.Contains(tx.locks.names, lockName{name, false}) || shared && slices.Contains(tx.locks.names, lockName{name, true})
	if tx.alone() || has {
		return nil
	}
	if tx.failure != nil {
		return tx.failure
	}
	at, err := tx.dialect.Lock(tx.ctx, tx.db, name, shared)
	if err != nil {
		return tx.failed(err)
	}
	tx.noteLock(lockName{name, shared}, at)
	return nil
}

// noteLock notes a lock that was taken at a moment of the database's clock: what is decided under the lock is decided by a
// clock that was read under it.
func (tx *Tx) noteLock(l lockName, at time.Time) {
	if tx.now.IsZero() {
		tx.now = micro(at)
	}
	tx.locks.names = append(tx.locks.names, l)
}

// tryLock takes a lock without a row alone, if nobody has it.
func (tx *Tx) tryLock(name string) (bool, error) {
	if tx.failure != nil {
		return false, tx.failure
	}
	if tx.alone() || slices.Contains(tx.locks.names, lockName{name, false}) {
		return true, nil
	}
	has, at, err := tx.dialect.TryLock(tx.ctx, tx.db, name)
	if err != nil {
		return false, tx.failed(err)
	}
	if has {
		tx.noteLock(lockName{name, false}, at)
	}
	return has, nil
}

// oneOrNone reads the only row of a query, locked. Where there is none it takes the lock of the question, and asks again: of two
// that find nothing and would add it, one comes after the other.
func oneOrNone[T any](tx *Tx, scan func(row) (T, error), query string, args ...any) (T, error) {
	found, err := one(tx, scan, tx.locked(query), args...)
	if !missing(err) || tx.alone() {
		return found, err
	}
	if err := tx.lock(fmt.Sprintf("%s%q", query, args), false); err != nil {
		return found, err
	}
	return one(tx, scan, tx.locked(query), args...)
}

// lockWorker locks a worker. Its own work shares the lock, since each transaction of it asks for the lease, and so does the
// beat, which only makes that longer. Who could end the lease has the lock alone. A lock of the row would not do: beats
// would wait for all work that asks.
func (tx *Tx) lockWorker(id perdure.WorkerID, shared bool) error {
	return tx.lock("worker/"+string(id), shared)
}

// name scans a row of one id.
func name[T ~string](r row) (T, error) {
	var id T
	err := r.Scan(&id)
	return id, err
}
