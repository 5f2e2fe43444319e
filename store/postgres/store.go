// Package postgres is the store in a PostgreSQL database, which several processes may share.
//
// It may import the root, store, store/sqlstore and the pgx driver. The one thing to know:
// transactions run concurrently, and each locks the rows it reads, the session first, so that
// transactions which conflict wait for each other. A transaction that the database rolled back
// because of a broken connection or a lock conflict runs again. If the answer of a COMMIT was lost,
// the store asks the server for its outcome.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// Store is a store.Store in a database. Open creates it.
type Store struct {
	cfg          Config
	hub          *store.Hub
	writers      *sql.DB
	readers      *sql.DB
	origin       string // marks this store's notifications, so that it can ignore them
	listenConfig *pgx.ConnConfig

	outbox        *outbox
	subscriptions *subscriptions
	received      atomic.Int64 // notifications
	workers       workers

	gate       sync.RWMutex // guards shut; held for reading while a transaction or view begins
	shut       bool
	closing    chan struct{}  // closed by Close: nothing is retried
	running    sync.WaitGroup // transactions and views
	background sync.WaitGroup // background goroutines of the store

	stopBackground context.CancelFunc
	closeOnce      sync.Once
	closeErr       error
}

var _ store.Store = (*Store)(nil)

// enter begins a transaction or view. After it returned nil, the caller calls running.Done at the
// end. Unavailable: the store is closed.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.shut {
		return errClosed
	}
	s.running.Add(1)
	return nil
}

// Watch calls fn with every event of a session after seq and then with each new one, including
// those of other processes.
func (s *Store) Watch(ctx context.Context, session perdure.SessionID, after int64, fn func(store.Frame) error) error {
	read := store.ReadJournal(func(fn func(store.Reader) error) error { return s.View(ctx, fn) }, session)
	s.subscriptions.watch(session)
	defer s.subscriptions.unwatch(session)
	return s.hub.Watch(ctx, session, after, read, fn)
}

// Close waits for running transactions and views, and closes the connections. Later calls return
// the same error.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.closeAll() })
	return s.closeErr
}

func (s *Store) closeAll() error {
	s.gate.Lock()
	s.shut = true
	s.gate.Unlock()
	close(s.closing)
	s.hub.Close()
	s.running.Wait()
	s.stopBackground()
	s.background.Wait()
	if err := errors.Join(s.writers.Close(), s.readers.Close()); err != nil {
		return fmt.Errorf("close the database: %w", err)
	}
	return nil
}
