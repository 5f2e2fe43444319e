// Package postgres is the store in a PostgreSQL database, which several processes may share.
//
// It may import the root, store, store/sqlstore and the pgx driver. The one thing to know: transactions run side by side, and
// each locks what it reads, the session first, so that two which would be wrong together wait for one another. What the
// database undoes for want of a connection or a lock runs again; a commit whose answer was lost is asked about.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// Store is a store.Store in a database. Open makes it.
type Store struct {
	cfg     Config
	hub     *store.Hub
	writers *sql.DB
	readers *sql.DB
	origin  string // of this store's words to others, so that it knows its own
	listens *pgx.ConnConfig
	outbox  *outbox

	gate    sync.RWMutex // guards shut; held for reading while a transaction or view begins
	shut    bool
	closing chan struct{}  // closed by Close: nothing is tried again
	running sync.WaitGroup // transactions and views
	beside  sync.WaitGroup // the goroutines that accompany the store

	stopBeside context.CancelFunc
	closeOnce  sync.Once
	closeErr   error
}

var _ store.Store = (*Store)(nil)

// enter begins a transaction or view. Unavailable: the store is closed. Who was let in calls running.Done.
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

// Watch calls fn with every event of a session after seq and then with each new one, also those of other processes.
func (s *Store) Watch(ctx context.Context, session perdure.SessionID, after int64, fn func(store.Frame) error) error {
	read := store.Journal(func(fn func(store.Reader) error) error { return s.View(ctx, fn) }, session)
	return s.hub.Watch(ctx, session, after, read, fn)
}

// Publish shows an ephemeral frame to the watchers of its session in this process.
func (s *Store) Publish(frame store.Frame) { s.hub.Publish(frame) }

// Close waits for the transactions and views that run, and ends the connections. Closing again answers the same.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.end() })
	return s.closeErr
}

func (s *Store) end() error {
	s.gate.Lock()
	s.shut = true
	s.gate.Unlock()
	close(s.closing)
	s.hub.Close()
	s.running.Wait()
	s.stopBeside()
	s.beside.Wait()
	if err := errors.Join(s.writers.Close(), s.readers.Close()); err != nil {
		return fmt.Errorf("close the database: %w", err)
	}
	return nil
}
