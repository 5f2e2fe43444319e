package sqlstore

import (
	"context"
	"math"
	"time"

	"github.com/perdure/perdure"
)

// Dialect is the part that SQLite and Postgres do not share. The adapter sets all fields.
type Dialect struct {
	// Goose is the name of the database for the migrations: sqlite3 or postgres.
	Goose string
	// RowLock is appended to a SELECT to lock its rows until the end of the transaction. It is
	// empty for a read-only transaction, and where only one transaction writes at a time.
	RowLock string
	// SkipLocked is appended to RowLock to leave out rows that other transactions have locked. It
	// is empty where RowLock is.
	SkipLocked string
	// Lock takes a named lock until the end of the transaction, shared or exclusive. It returns the
	// database's clock as of the time it got the lock. nil where RowLock is empty.
	Lock func(ctx context.Context, db DB, name string, shared bool) (time.Time, error)
	// TryLock takes a named exclusive lock if it is free, without waiting, and reports whether it
	// did. nil where RowLock is empty.
	TryLock func(ctx context.Context, db DB, name string) (has bool, at time.Time, err error)
	// Sequence says that positions come from the sequence row_position, which the adapter creates.
	// Otherwise a position is one more than the greatest, which is correct only where one
	// transaction writes at a time.
	Sequence bool
	// LockMigrations says that several processes may migrate at once, so they must take turns.
	LockMigrations bool
	// Clock reads the clock by which leases are measured.
	Clock func(ctx context.Context, db DB) (time.Time, error)
	// Connect marks the connections of this process as those of a worker, until they end. nil:
	// there are no other processes.
	Connect func(ctx context.Context, db DB, id perdure.WorkerID) error
	// Disconnected returns those of the workers whose processes had connections and have none now.
	// nil where Connect is.
	Disconnected func(ctx context.Context, db DB, ids []perdure.WorkerID) ([]perdure.WorkerID, error)
	// Explain gives an error of the driver its kind: Storage for a full disk and for a failed read
	// or write, Unavailable for temporary errors. It wraps err, and returns other errors unchanged.
	Explain func(err error) error
}

// micro returns a time as the store keeps it: UTC, truncated to microseconds.
func micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// micros returns a time as microseconds since 1970; the zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// moment is the inverse of micros.
func moment(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// bytesOf returns a value for a BYTEA column that must not be NULL, as nil would be.
func bytesOf[T ~string | ~[]byte](v T) []byte {
	if len(v) == 0 {
		return []byte{}
	}
	return []byte(v)
}

// orAll returns a limit for SQL: 0 means all.
func orAll(limit int) int64 {
	if limit <= 0 {
		return math.MaxInt64
	}
	return int64(limit)
}
