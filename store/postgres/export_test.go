package postgres

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure"
)

// OpenSQL opens a database without the store, for the length of a test.
func OpenSQL(t *testing.T, url string) *sql.DB {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector(cfg))
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// Mute makes one store's notifications look like another store's own, so that the other one ignores
// them. The first store has not written yet.
func Mute(writes, watches *Store) { writes.origin = watches.origin }

// AwaitListening waits until the store listens to a session.
func (s *Store) AwaitListening(ctx context.Context, id perdure.SessionID) error {
	return await(ctx, func() bool {
		s.subscriptions.mu.Lock()
		defer s.subscriptions.mu.Unlock()
		sub := s.subscriptions.sessions[id]
		return sub != nil && sub.listening
	})
}

// AwaitReceived waits until the store has received that many notifications.
func (s *Store) AwaitReceived(ctx context.Context, n int64) error {
	return await(ctx, func() bool { return s.Received() >= n })
}

// Received is the number of notifications that the store has received.
func (s *Store) Received() int64 { return s.received.Load() }

func await(ctx context.Context, condition func() bool) error {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !condition() {
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Exported for the tests of errors.
var (
	Explain = explain
	Passes  = isTransient
)

// Settle reads the outcome of a transaction, given its id and the key of its server era.
func (s *Store) Settle(ctx context.Context, number, era string) error {
	return s.settle(ctx, transaction{number: number, era: era, backend: "0"}, io.ErrUnexpectedEOF)
}

// NothingWasCommitted reports whether the result of Settle says that nothing was committed.
func NothingWasCommitted(err error) bool {
	var back rolledBack
	return errors.As(err, &back)
}

// Begun returns the id of a committed transaction, and the key of its server era.
func (s *Store) Begun(ctx context.Context) (number, era string, err error) {
	conn, err := connect(ctx, s.writers, beginWrite)
	if err != nil {
		return "", "", err
	}
	defer conn.release()
	if err := conn.start(ctx); err != nil {
		return "", "", err
	}
	_, err = conn.execSimple(ctx, commit)
	return conn.transaction.number, conn.transaction.era, err
}

// LeaveOpen releases a connection in the middle of a transaction that ran a statement.
func (s *Store) LeaveOpen(ctx context.Context, statement string) error {
	conn, err := connect(ctx, s.writers, beginWrite)
	if err != nil {
		return err
	}
	defer conn.release()
	if err := conn.start(ctx); err != nil {
		return err
	}
	_, err = conn.execSimple(ctx, statement)
	return err
}

// Listener identifies the connection of the listener; nil: it is not connected.
func (s *Store) Listener() *time.Time {
	s.workers.mu.Lock()
	defer s.workers.mu.Unlock()
	return s.workers.since
}

// AwaitListener waits until the listener is connected.
func (s *Store) AwaitListener(ctx context.Context) error { return s.AwaitAnotherListener(ctx, nil) }

// AwaitAnotherListener waits until the listener has another connection than before.
func (s *Store) AwaitAnotherListener(ctx context.Context, before *time.Time) error {
	return await(ctx, func() bool { now := s.Listener(); return now != nil && now != before })
}

// AwaitDisconnected waits until no connection has the lock of a worker.
func (s *Store) AwaitDisconnected(ctx context.Context, id perdure.WorkerID) error {
	var failed error
	return errors.Join(await(ctx, func() bool {
		var locked bool
		locked, failed = s.Locked(ctx, id)
		return failed == nil && !locked
	}), failed)
}

// AwaitHolders waits until that many connections have the lock of a worker.
func (s *Store) AwaitHolders(ctx context.Context, id perdure.WorkerID, want int) error {
	var failed error
	return errors.Join(await(ctx, func() bool {
		var n int
		failed = s.readers.QueryRowContext(ctx, `SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND granted
			AND (classid::bigint << 32 | objid::bigint) = $1`, workerLock(id)).Scan(&n)
		return failed == nil && n >= want
	}), failed)
}

// Locked reports whether a connection has the lock of a worker.
func (s *Store) Locked(ctx context.Context, id perdure.WorkerID) (locked bool, err error) {
	found, err := lockedOf(ctx, s.readers, []int64{workerLock(id)})
	return len(found) > 0, err
}
