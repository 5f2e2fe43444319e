package sqlite

import (
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// code returns the primary result code of a SQLite error, or 0.
func code(err error) int {
	var e *driver.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

func isFull(err error) bool { return code(err) == lib.SQLITE_FULL }

// isBusy reports whether another program holds the database's lock. This passes.
func isBusy(err error) bool { return code(err) == lib.SQLITE_BUSY || code(err) == lib.SQLITE_LOCKED }

// isDamaged reports whether the file is not a database, or is corrupt.
func isDamaged(err error) bool {
	return code(err) == lib.SQLITE_NOTADB || code(err) == lib.SQLITE_CORRUPT
}

// isMedium reports whether a read, write or sync failed. A full disk is not such a failure.
func isMedium(err error) bool {
	switch code(err) {
	case lib.SQLITE_IOERR, lib.SQLITE_READONLY, lib.SQLITE_CANTOPEN, lib.SQLITE_PERM, lib.SQLITE_PROTOCOL,
		lib.SQLITE_NOLFS:
		return true
	}
	return false
}

// mustStop reports whether durability is in doubt after err (ER8).
func mustStop(err error) bool { return isMedium(err) || isDamaged(err) }

// explain is sqlstore.Dialect.Explain for the database in dir. A programming error is returned
// unchanged and has no kind.
func explain(dir string, err error) error {
	var kind perdure.Kind
	switch {
	case err == nil || errors.As(err, &kind):
		return err
	case isFull(err):
		return fmt.Errorf("%w: free space in %s; nothing was changed: %w", store.Full, dir, err)
	case isBusy(err):
		return fmt.Errorf("%w: another program holds the database in %s: %w", perdure.Unavailable, dir, err)
	case isDamaged(err):
		return fmt.Errorf("%w: the database in %s is damaged; keep the files as they are: %w", perdure.Storage, dir,
			err)
	case isMedium(err):
		return fmt.Errorf("%w: cannot read or write in %s: %w", perdure.Storage, dir, err)
	}
	return err
}
