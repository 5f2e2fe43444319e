package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlstore"
)

// readers is a bounded pool of read-only connections. Each View holds one until it returns.
type readers struct {
	db      *sql.DB
	dialect sqlstore.Dialect
	free    chan *connection // capacity: the maximal number of connections; nil is a connection that is not open yet
	closing chan struct{}
}

func newReaders(db *sql.DB, dialect sqlstore.Dialect, places int) *readers {
	r := &readers{db: db, dialect: dialect, free: make(chan *connection, places), closing: make(chan struct{})}
	for range places {
		r.free <- nil
	}
	return r
}

// view runs fn in one deferred transaction. Its snapshot is taken at its first read.
func (r *readers) view(ctx context.Context, fn func(store.Reader) error) error {
	conn, err := r.acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { r.free <- conn }()
	if conn == nil {
		// The statements of a view are short and local. ctx therefore only ends the wait for a
		// connection, which also saves the driver a goroutine for each statement.
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
			conn = nil // the next view opens another one
		}
	}()
	tx := sqlstore.New(context.Background(), conn, r.dialect)
	if err := fn(tx.Reader()); err != nil {
		return err
	}
	return tx.Failure()
}

func (r *readers) acquire(ctx context.Context) (*connection, error) {
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

// drain waits for running views and refuses new ones. The connections stay open.
func (r *readers) drain() {
	close(r.closing)
	for range cap(r.free) {
		<-r.free
	}
}

// close waits for running views and closes all connections.
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
