package sessionsql

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/perdure/perdure"
)

// Error describes what is wrong with a statement. errors.Is matches its kind.
type Error struct {
	Kind perdure.Kind // Invalid or Limit
	Text string       // suitable for the model
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Is reports whether target is the error's kind.
func (e *Error) Is(target error) bool { return target == e.Kind }

func invalidError(format string, args ...any) error {
	return &Error{Kind: perdure.Invalid, Text: fmt.Sprintf(format, args...)}
}

func limitError(format string, args ...any) error {
	return &Error{Kind: perdure.Limit, Text: fmt.Sprintf(format, args...)}
}

// Causes with which the runtime cancels a statement.
var (
	errTime   = errors.New("the statement took too long")
	errMemory = errors.New("the statement took too much memory")
)

// errorCode matches the parts of a driver message that mean nothing to a model: its prefix and the
// numeric code.
var errorCode = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(SQL logic error|constraint failed): | \(\d+\)$`)
})

// code returns the primary result code of a SQLite error, or 0 for other errors.
func code(err error) int {
	var e *driver.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

// statementError turns the error of a statement into one for the model. Errors that the statement
// did not cause are Storage. ctx is the statement's context, outer the caller's.
func (s *Store) statementError(outer, ctx context.Context, d *database, err error) error {
	var known *Error
	cause := context.Cause(ctx)
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case outer.Err() != nil:
		return context.Cause(outer)
	case errors.Is(cause, errTime):
		return limitError("The statement was stopped after %s, and changed nothing. Make it do less: use an index, a "+
			"LIMIT, or smaller steps.", s.cfg.Timeout)
	case errors.Is(cause, errMemory):
		return limitError("The statement was stopped because it needs too much memory, and changed nothing. Make it " +
			"sort, group or join less at once.")
	case d.policy.denied != "":
		return invalidError("%s", d.policy.denied)
	}
	switch code(err) {
	case lib.SQLITE_FULL:
		return limitError("The database is full: a database can have at most %d MB, and all databases of a session %d "+
			"MB together. Nothing was changed. Delete data that is no longer needed.",
			s.cfg.MaxDatabaseBytes>>20, s.cfg.MaxSessionBytes>>20)
	case lib.SQLITE_TOOBIG:
		return limitError("A value, row or statement is larger than %d KB. Nothing was changed.", maxValueBytes>>10)
	case lib.SQLITE_NOMEM:
		return limitError("The statement needs too much memory, and changed nothing.")
	case lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN, lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_CORRUPT,
		lib.SQLITE_NOTADB, lib.SQLITE_BUSY:
		return fmt.Errorf("%w: session database: %w", perdure.Storage, err)
	}
	return invalidError("%s", errorCode().ReplaceAllString(err.Error(), ""))
}
