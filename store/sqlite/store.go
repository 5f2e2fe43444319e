// Package sqlite is the embedded default store: one SQLite file in a data directory,
// DIR/perdure.db.
//
// It may import the root, store, store/sqlstore and the SQLite driver. The one thing to know: an
// acknowledged commit is on the disk (WAL, synchronous FULL), and transactions that arrive at the
// same time share one commit. A process that opens a directory for writing holds its lock until
// Close or its death. Any number of processes may read meanwhile.
//
// A single goroutine, the writer, runs all transactions. A failed write or sync breaks the store
// for good, because the state of the disk is unknown from then on: every later transaction fails,
// the engine stops, and the next start recovers.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

var errClosed = fmt.Errorf("%w: the store is closed", perdure.Unavailable)

// Store is a store.Store in a data directory. Open creates it.
type Store struct {
	dir     string
	hub     *store.Hub
	readers *readers

	// nil in a store that is open for reading only
	lock    *dirLock
	db      *sql.DB // the database of the writer's connection
	writer  *writer
	reserve *reserve // nil: no reserve

	closeOnce sync.Once
	closeErr  error
}

var _ store.Store = (*Store)(nil)

// Stats counts writes since Open. Transactions that wait at the same time share a commit.
type Stats struct {
	Transactions int64 // committed transactions
	Commits      int64 // commits of the database, each with one sync
}

// InTx runs fn in one transaction, which is on the disk when InTx returns nil.
//
// fn runs in a goroutine of the store. It runs again if the database refused the batch that
// contained it, or if an urgent transaction found the disk full and the reserve was removed for it.
// A panic of fn is raised in InTx. Storage: the disk is full and nothing was changed, or a write or
// sync failed, after which every transaction fails with the same error (see Broken). Unavailable:
// the store is closed or open for reading only, or another program holds the database's lock.
func (s *Store) InTx(ctx context.Context, fn func(store.Tx) error) error {
	if s.writer == nil {
		return fmt.Errorf("%w: data directory %s is open for reading only", perdure.Unavailable, s.dir)
	}
	if s.reserve == nil {
		return s.writer.do(ctx, fn)
	}
	urgent := store.IsUrgent(ctx)
	only := s.reserve.onlyForUrgent()
	if s.reserve.isGone() {
		s.writer.requestTruncate() // the log's file may take the space of the reserve
	}
	if !urgent && only {
		return fmt.Errorf("%w: free space in %s: what is left is reserved for cancels; nothing was changed",
			store.Full, s.dir)
	}
	err := s.writer.do(ctx, fn)
	if urgent && errors.Is(err, store.Full) && s.reserve.giveUp() {
		err = s.writer.do(ctx, fn)
	}
	return err
}

// View runs fn on one consistent snapshot, in the caller's goroutine.
func (s *Store) View(ctx context.Context, fn func(store.Reader) error) error {
	return s.readers.view(ctx, fn)
}

// Watch calls fn with every event of a session after seq and then with each new one. A store that
// is open for reading only delivers no new events, since another process writes them.
func (s *Store) Watch(ctx context.Context, session perdure.SessionID, after int64, fn func(store.Frame) error) error {
	read := store.ReadJournal(func(fn func(store.Reader) error) error { return s.View(ctx, fn) }, session)
	return s.hub.Watch(ctx, session, after, read, fn)
}

// Publish sends an ephemeral frame to the watchers of its session.
func (s *Store) Publish(frame store.Frame) { s.hub.Publish(frame) }

// Broken returns the first failed write or sync, after which no transaction is acknowledged, or
// nil. The engine then stops, and its next start recovers (ER8).
func (s *Store) Broken() error {
	if s.writer == nil {
		return nil
	}
	return s.writer.broken()
}

// Broke returns a channel that is closed when Broken returns an error. It is nil for a store that
// is open for reading only.
func (s *Store) Broke() <-chan struct{} {
	if s.writer == nil {
		return nil
	}
	return s.writer.broke
}

// Stats returns the current counts.
func (s *Store) Stats() Stats {
	if s.writer == nil {
		return Stats{}
	}
	return Stats{Transactions: s.writer.transactions.Load(), Commits: s.writer.commits.Load()}
}

// Close waits for running transactions and views, moves the write-ahead log into the database, and
// releases the lock. Later calls return the same error.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.closeAll() })
	return s.closeErr
}

func (s *Store) closeAll() error {
	s.hub.Close()
	if s.writer == nil {
		return s.readers.close()
	}
	close(s.writer.closing)
	<-s.writer.stopped
	if s.writer.broken() != nil {
		return s.abandon()
	}
	errs := []error{s.readers.close(), s.writer.checkpointer.close(), s.emptyLog(), s.writer.conn.close(), s.db.Close(),
		s.lock.release()}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close data directory %s: %w", s.dir, err)
	}
	return nil
}

// abandon releases the directory after a failed write or sync, and does not sync again: the result
// of a sync after a failed one means nothing (R6). SQLite moves the log when it closes a database,
// so the database is not closed. Its connections stay open until the process ends, which it does
// soon after its store broke.
func (s *Store) abandon() error {
	s.readers.drain()
	if err := s.lock.release(); err != nil {
		return fmt.Errorf("close data directory %s: %w", s.dir, err)
	}
	return nil
}

// emptyLog moves the write-ahead log into the database. A full disk is not an error here: nothing
// is lost, and the next Open reads the log.
func (s *Store) emptyLog() error {
	_, err := s.writer.conn.ExecContext(context.Background(), truncateLog)
	if isFull(err) {
		return nil
	}
	return s.writer.dialect.Explain(err)
}
