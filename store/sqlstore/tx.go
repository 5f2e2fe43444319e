// Package sqlstore holds the SQL of the store, once for SQLite and Postgres: one noun for each
// file, each statement a constant next to its method.
//
// It may import the root, agent, budget, store, webhook, and goose for the migrations. The one
// thing to know: a [Tx] runs inside a transaction that an adapter began and will end. What the two
// databases do not share is a [Dialect].
//
// Text from outside is stored as BYTEA and passed as []byte; a time is a BIGINT of microseconds.
// Rows are ordered only by BIGINT, by BYTEA, or by ids of one kind, which are a fixed prefix and
// lower-case hex digits, so that every collation gives the same order.
//
// Where several transactions write at once, each one locks what it reads, so that two transactions
// that would conflict wait for each other. Everything of a session is protected by the lock of the
// session's row, which is taken before the locks of other rows. Most transactions therefore meet at
// that lock, and deadlocks are rare. Where RowLock is empty, nothing of this happens.
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

// DB is where a Tx runs its statements: a connection, a transaction of database/sql, or a cache of
// prepared statements.
type DB interface {
	// ExecContext runs a statement that returns no rows.
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	// QueryContext runs a statement that returns rows. A Tx closes them before it runs the next
	// one.
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Tx is one transaction, or one read-only snapshot if the adapter passes it as a store.Reader. It
// is used by one goroutine at a time, and only while the adapter's transaction lasts.
type Tx struct {
	ctx      context.Context // of the whole transaction, because the methods of store.Tx have none
	db       DB
	dialect  Dialect
	now      time.Time // zero until it is read, or a lock returns it
	locks    locks
	appended []perdure.SessionID
	budgeted *bool // whether there is any budget; nil: not read yet
	failure  error
}

var _ store.Tx = (*Tx)(nil)

// New returns a Tx on db. ctx ends the statements, if the driver supports that.
func New(ctx context.Context, db DB, dialect Dialect) *Tx {
	return &Tx{ctx: ctx, db: db, dialect: dialect}
}

// Now returns the database's clock, which is read once for each transaction. It is zero if the
// clock could not be read; then Failure returns the error.
func (tx *Tx) Now() time.Time {
	if tx.now.IsZero() && tx.failure == nil {
		now, err := tx.dialect.Clock(tx.ctx, tx.db)
		if err != nil {
			_ = tx.failed(err) // stored in the Tx; the next statement returns it
			return time.Time{}
		}
		tx.now = micro(now)
	}
	return tx.now
}

// Failure returns the first error of the database itself, explained by Dialect.Explain. After such
// an error the Tx runs no more statements, and the adapter must roll back whatever fn returned:
// SQLite may have ended the transaction already, and later statements would be committed on their
// own.
func (tx *Tx) Failure() error { return tx.failure }

// Appended returns the sessions whose journals grew or were removed. The adapter notifies their
// watchers after the commit.
func (tx *Tx) Appended() []perdure.SessionID { return tx.appended }

func (tx *Tx) noteAppended(id perdure.SessionID) {
	if !slices.Contains(tx.appended, id) {
		tx.appended = append(tx.appended, id)
	}
}

// failed explains an error of the database, and stores the first one.
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

// row is the current row of a query.
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

// each calls fn with the rows of a query, until there are no more or fn returns false.
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

// missing reports whether err only says that there is no row.
func missing(err error) bool { return errors.Is(err, perdure.NotFound) }

// wrap adds the step that failed to an error; nil stays nil.
func wrap(err error, step string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(step, args...), err)
}

// wrapped returns v, or the zero value and the wrapped error.
func wrapped[T any](v T, err error, step string, args ...any) (T, error) {
	if err != nil {
		var none T
		return none, wrap(err, step, args...)
	}
	return v, nil
}

// The statements of locks.
const (
	holdSession   = `SELECT epoch FROM session WHERE id = $1`
	sessionOfTask = `SELECT session_id FROM task WHERE id = $1`
	sessionOfAsk  = `SELECT session_id FROM approval WHERE id = $1`
)

// positionNext is the next position where positions come from a sequence.
const positionNext = `nextval('row_position')`

// locks is what a transaction has locked. The zero value is nothing.
type locks struct {
	sessions []perdure.SessionID
	tasks    []perdure.TaskID // tasks whose sessions are locked
	names    []lockName
	last     map[perdure.SessionID]int64 // last seq of sessions that were read with it under the lock
}

// lockName is a named lock, and how it is held.
type lockName struct {
	name   string
	shared bool
}

// locked adds the row lock to a SELECT.
func (tx *Tx) locked(query string) string { return query + tx.dialect.RowLock }

// alone reports that no locks are needed: no other transaction writes, or this transaction only
// reads.
func (tx *Tx) alone() bool { return tx.dialect.RowLock == "" }

// withPosition selects an INSERT: own computes its position from the existing rows, next takes it
// from the sequence.
func (tx *Tx) withPosition(own, next string) string {
	if tx.dialect.Sequence {
		return next
	}
	return own
}

// hold locks a session: its row or, if it has none, its name. It does nothing for an empty id.
func (tx *Tx) hold(id perdure.SessionID) error {
	if tx.alone() || id == "" || slices.Contains(tx.locks.sessions, id) {
		return nil
	}
	_, err := one(tx, number, tx.locked(holdSession), id)
	if missing(err) {
		if err = tx.lockUnmade(id); err == nil {
			// the previous holder of the name may have added the row
			_, err = one(tx, number, tx.locked(holdSession), id)
		}
	}
	if err != nil && !missing(err) {
		return fmt.Errorf("hold session %s: %w", id, err)
	}
	tx.held(id)
	return nil
}

// lockUnmade locks the name of a session without a row, so that a transaction that creates the row
// and one that relies on its absence take turns.
func (tx *Tx) lockUnmade(id perdure.SessionID) error { return tx.lock("session/"+string(id), false) }

// held records that a statement has locked a session's row.
func (tx *Tx) held(id perdure.SessionID) {
	if !tx.alone() && !slices.Contains(tx.locks.sessions, id) {
		tx.locks.sessions = append(tx.locks.sessions, id)
	}
}

// holdTask locks the session of a task. An empty session is looked up; a missing task has none.
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

// lock takes a named lock, once. An exclusive lock also counts as shared.
func (tx *Tx) lock(name string, shared bool) error {
	has := slices.Contains(tx.locks.names, lockName{name, false}) || shared &&
		slices.Contains(tx.locks.names, lockName{name, true})
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

// noteLock records a lock that was taken at a time of the database's clock. Decisions under the
// lock must use a clock that was read under it.
func (tx *Tx) noteLock(l lockName, at time.Time) {
	if tx.now.IsZero() {
		tx.now = micro(at)
	}
	tx.locks.names = append(tx.locks.names, l)
}

// tryLock takes an exclusive named lock, if it is free.
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

// oneOrNone reads the only row of a query, locked. If there is none, it takes a named lock for the
// query and reads again. So of two transactions that find nothing and would insert, one waits for
// the other.
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

// lockWorker locks a worker. The worker's own transactions share the lock, because each of them
// checks the lease, and so does its heartbeat, which only extends the lease. A transaction that
// could end the lease has the lock exclusively. A row lock would not do: heartbeats would wait for
// all running work.
func (tx *Tx) lockWorker(id perdure.WorkerID, shared bool) error {
	return tx.lock("worker/"+string(id), shared)
}

// name scans a row of one id.
func name[T ~string](r row) (T, error) {
	var id T
	err := r.Scan(&id)
	return id, err
}
