package sqlstore

import (
	"context"
	"math"
	"time"
)

// Dialect is what SQLite and Postgres do not share. The adapter fills all of it in.
type Dialect struct {
	// Goose is the name that the migrations know the database by: sqlite3 or postgres.
	Goose string
	// RowLock ends a SELECT that locks its rows until the end of the transaction; empty where a transaction
	// that writes is alone anyway, and for one that only reads.
	RowLock string
	// SkipLocked goes on RowLock where rows that others hold are to be left out, not waited for; empty where RowLock is.
	SkipLocked string
	// Lock takes a lock that has no row, by its name, until the end of the transaction: shared with others who share it,
	// or alone. It answers the database's clock once it has it. nil where RowLock is empty.
	Lock func(ctx context.Context, db DB, name string, shared bool) (time.Time, error)
	// TryLock is Lock of one that is free, alone; it waits for nobody, and answers whether it has it. nil where RowLock is empty.
	TryLock func(ctx context.Context, db DB, name string) (has bool, at time.Time, err error)
	// Sequence says that positions come from the sequence row_position, which the adapter makes. Else a position is one
	// more than the greatest, which is right where a transaction that writes is alone.
	Sequence bool
	// LockMigrations says that several processes may migrate at once, so that they take turns.
	LockMigrations bool
	// Clock reads the clock by which leases are measured (LG3).
	Clock func(ctx context.Context, db DB) (time.Time, error)
	// Explain gives an error of the driver its kind and its words: Storage for a full disk and for a
	// failed read or write, Unavailable for what may pass. It wraps err, and leaves what it does not know.
	Explain func(err error) error
}

// micro is a moment as the store keeps it: UTC, whole microseconds.
func micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// micros writes a moment as microseconds since 1970. Zero is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// moment reads what micros wrote.
func moment(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// bytesOf makes a value for a BYTEA column that must not be NULL: nil would be.
func bytesOf[T ~string | ~[]byte](v T) []byte {
	if len(v) == 0 {
		return []byte{}
	}
	return []byte(v)
}

// orAll turns a limit into one that both databases take: 0 asks for all.
func orAll(limit int) int64 {
	if limit <= 0 {
		return math.MaxInt64
	}
	return int64(limit)
}
