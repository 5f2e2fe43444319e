package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlstore"
)

// readers is a bounded pool of read-only connections. Each View has one for its whole length.
type readers struct {
	db      *sql.DB
	dialect sqlstore.Dialect
	free    chan *connection // as many places as connections may be; nil is one that was not opened yet
	closing chan struct{}
}

func newReaders(db *sql.DB, dialect sqlstore.Dialect, places int) *readers {
	r := &readers{db: db, dialect: dialect, free: make(chan *connection, places), closing: make(chan struct{})}
	for range places {
		r.free <- nil
	}
	return r
}

// view runs fn in one deferred transaction, whose snapshot begins with its first read.
func (r *readers) view(ctx context.Context, fn func(store.Reader) error) error {
	conn, err := r.take(ctx)
	if err != nil {
		return err
	}
	defer func() { r.free <- conn }()
	if conn == nil {
		// The statements of a view are short and local: ctx ends the waiting for a place only, which also
		// keeps the driver from starting a goroutine for each of them.
		fresh, err := connect(context.WithoutCancel(ctx), r.db)
		if err != nil {
			return r.dialect.Explain(err)
		}
		conn = fresh
	}
	if _, err := conn.ExecContext(context.Background(), `BEGIN`); err != nil {
		return r.dialect.Explain(err)
	}
	defer func() {
		if _, err := conn.ExecContext(context.Background(), rollbackBatch); err != nil {
			conn.discard()
			conn = nil // the next view opens another one in its place
		}
	}()
	tx := sqlstore.New(context.Background(), conn, r.dialect)
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Failure()
}

func (r *readers) take(ctx context.Context) (*connection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-r.closing:
		return nil, errClosed
	default:
	}
	select {
	case conn := <-r.free:
		return conn, nil
	case <-r.closing:
		return nil, errClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// rest waits for the views that run and lets no others begin. The connections stay open.
func (r *readers) rest() {
	close(r.closing)
	for range cap(r.free) {
		<-r.free
	}
}

// close waits for the views that run and closes all connections.
func (r *readers) close() error {
	close(r.closing)
	var errs []error
	for range cap(r.free) {
		if conn := <-r.free; conn != nil {
			errs = append(errs, conn.close())
		}
	}
	return errors.Join(append(errs, r.db.Close())...)
}
