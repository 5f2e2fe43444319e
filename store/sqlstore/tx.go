// Package sqlstore is the SQL of the store, once, for SQLite and Postgres: one noun a file, each statement
// a constant beside its method.
//
// It may import the root, store, and goose for the migrations. The one thing to know: a [Tx] runs inside a
// transaction that an adapter began and will end; what the two databases do not share is a [Dialect].
// Whatever came from outside is BYTEA and travels as []byte, a moment is a BIGINT of microseconds, and every
// order is by BIGINT or BYTEA, so that no collation of a database decides it.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
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
	now      time.Time // zero until somebody asks
	appended []perdure.SessionID
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

// Appended returns the sessions whose journals grew, so that the adapter can tell their watchers after the commit.
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
