// Package sqlite is the store in one file of a data directory, DIR/perdure.db: the embedded default.
//
// It may import the root, store, store/sqlstore and the SQLite driver. The one thing to know: a commit
// that was answered is on the disk (WAL, synchronous FULL), and transactions that come at the same time
// share one. Who opens a directory for writing holds its lock until Close or death; anybody may read beside.
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

// Store is a store.Store in a data directory. Open makes it.
type Store struct {
	dir     string
	hub     *store.Hub
	readers *readers

	// What a store that is open for reading only has not: all nil.
	lock    *dirLock
	db      *sql.DB // of the writer's connection
	writer  *writer
	reserve *reserve // nil: there is none

	closeOnce sync.Once
	closeErr  error
}

var _ store.Store = (*Store)(nil)

// Stats counts what was written since Open. Transactions that wait at the same time share a commit.
type Stats struct {
	Transactions int64 // that were committed
	Commits      int64 // of the database, each with one sync
}

// InTx runs fn in one transaction, which is on the disk when InTx returns nil.
//
// fn runs in a goroutine of the store, again if the database refused the batch that it was in, or if an urgent one found no
// space and the reserve was opened for it; its panic comes out of InTx. Storage: the disk is full, and nothing was changed, or a write or sync failed, and
// then everything after it is answered with the same error (Broken). Unavailable: the store is closed,
// open for reading only, or another program holds the database's lock.
func (s *Store) InTx(ctx context.Context, fn func(store.Tx) error) error {
	if s.writer == nil {
		return fmt.Errorf("%w: data directory %s is open for reading only", perdure.Unavailable, s.dir)
	}
	if s.reserve == nil {
		return s.writer.do(ctx, fn)
	}
	urgent := store.IsUrgent(ctx)
	only := s.reserve.onlyForUrgent()
	if s.reserve.given() {
		s.writer.shorten() // the log may stand where space is to be kept
	}
	if !urgent && only {
		return fmt.Errorf("%w: free space in %s; what is left is kept for cancels; nothing was changed", store.Full, s.dir)
	}
	err := s.writer.do(ctx, fn)
	if urgent && errors.Is(err, store.Full) && s.reserve.open() {
		err = s.writer.do(ctx, fn)
	}
	return err
}

// View runs fn on one consistent snapshot, in the caller's goroutine.
func (s *Store) View(ctx context.Context, fn func(store.Reader) error) error {
	return s.readers.view(ctx, fn)
}

// Watch calls fn with every event of a session after seq and then with each new one. In a store that is open
// for reading only nothing new comes, since its holder is another process.
func (s *Store) Watch(ctx context.Context, session perdure.SessionID, after int64, fn func(store.Frame) error) error {
	read := store.Journal(func(fn func(store.Reader) error) error { return s.View(ctx, fn) }, session)
	return s.hub.Watch(ctx, session, after, read, fn)
}

// Publish shows an ephemeral frame to the watchers of its session.
func (s *Store) Publish(frame store.Frame) { s.hub.Publish(frame) }

// Broken returns the first failed write or sync, after which nothing is acknowledged any more, or nil. The
// engine stops on it; the next start recovers (ER8).
func (s *Store) Broken() error {
	if s.writer == nil {
		return nil
	}
	return s.writer.broken()
}

// Broke returns a channel that is closed when Broken has an answer. It is nil for a store that is open for reading only.
func (s *Store) Broke() <-chan struct{} {
	if s.writer == nil {
		return nil
	}
	return s.writer.broke
}

// Stats returns the counts up to now.
func (s *Store) Stats() Stats {
	if s.writer == nil {
		return Stats{}
	}
	return Stats{Transactions: s.writer.transactions.Load(), Commits: s.writer.commits.Load()}
}

// Close waits for the transactions and views that run, empties the write-ahead log into the database and
// gives the lock back. Closing again answers the same.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.shut() })
	return s.closeErr
}

func (s *Store) shut() error {
	s.hub.Close()
	if s.writer == nil {
		return s.readers.close()
	}
	close(s.writer.closing)
	<-s.writer.stopped
	if s.writer.broken() != nil {
		return s.abandon()
	}
	errs := []error{s.readers.close(), s.writer.mover.close(), s.emptyLog(), s.writer.conn.close(), s.db.Close(), s.lock.release()}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close data directory %s: %w", s.dir, err)
	}
	return nil
}

// abandon gives the directory back after a failed write or sync, without another one: what a second sync says after a
// failed one is worth nothing (R6). SQLite empties the log when it closes a database, so it is not closed: its connections
// stay open until the process ends, which a broken store is the reason for.
func (s *Store) abandon() error {
	s.readers.rest()
	if err := s.lock.release(); err != nil {
		return fmt.Errorf("close data directory %s: %w", s.dir, err)
	}
	return nil
}

// emptyLog moves the write-ahead log into the database. Nothing is lost where it cannot: the next Open reads
// the log as it is, so a full disk is no error here.
func (s *Store) emptyLog() error {
	_, err := s.writer.conn.ExecContext(context.Background(), cutLog)
	if isFull(err) {
		return nil
	}
	return s.writer.dialect.Explain(err)
}
