package postgres

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// OpenSQL opens a database past the store, for the length of a test.
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

// Mute makes one store's words sound to another one like its own, so that they are lost. It has not written yet.
func Mute(writes, watches *Store) { writes.origin = watches.origin }

// Listening waits until so many stores listen to their database.
func (s *Store) Listening(ctx context.Context, stores int) error {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		var n int
		err := s.readers.QueryRowContext(ctx, `SELECT COUNT(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = $1 AND state = 'idle' AND query = $2`,
			applicationName+" listener", listen).Scan(&n)
		if err != nil || n == stores {
			return err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// What the tests of errors ask.
var (
	Explain = explain
	Passes  = passes
)

// Settle asks what became of a transaction, by its number and the word of the life in which it had it.
func (s *Store) Settle(ctx context.Context, number, life string) error {
	return s.settle(ctx, transaction{number: number, life: life, backend: "0"}, io.ErrUnexpectedEOF)
}

// NothingWasCommitted reports whether an answer of Settle says so.
func NothingWasCommitted(err error) bool {
	var back undone
	return errors.As(err, &back)
}

// Begun answers the number of a transaction that was committed, and the word of the life in which it has it.
func (s *Store) Begun(ctx context.Context) (number, life string, err error) {
	conn, err := connect(ctx, s.writers, beginWrite)
	if err != nil {
		return "", "", err
	}
	defer conn.release()
	if err := conn.start(ctx); err != nil {
		return "", "", err
	}
	_, err = conn.simply(ctx, commit)
	return conn.begun.number, conn.begun.life, err
}

// LeaveOpen gives a connection back in the middle of a transaction that ran a statement.
func (s *Store) LeaveOpen(ctx context.Context, statement string) error {
	conn, err := connect(ctx, s.writers, beginWrite)
	if err != nil {
		return err
	}
	defer conn.release()
	if err := conn.start(ctx); err != nil {
		return err
	}
	_, err = conn.simply(ctx, statement)
	return err
}
