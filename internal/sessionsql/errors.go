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

// Error says what is wrong with a statement; errors.Is also tells its kind.
type Error struct {
	Kind perdure.Kind // Invalid or Limit
	Text string       // fit for the model
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Is reports whether target is the error's kind.
func (e *Error) Is(target error) bool { return target == e.Kind }

func invalid(format string, args ...any) error {
	return &Error{Kind: perdure.Invalid, Text: fmt.Sprintf(format, args...)}
}

func limited(format string, args ...any) error {
	return &Error{Kind: perdure.Limit, Text: fmt.Sprintf(format, args...)}
}

// What ends a statement from our side.
var (
	errTime   = errors.New("the statement took too long")
	errMemory = errors.New("the statement took too much memory")
)

// errorCode ends what the driver says; it means nothing to a model.
var errorCode = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(SQL logic error|constraint failed): | \(\d+\)$`) })

// code returns the primary result code of an error of SQLite, or 0.
func code(err error) int {
	var e *driver.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

// explain turns an error of a statement into one for the model. What is not the statement's fault is Storage. ctx is the
// statement's, outer the caller's.
func (s *Store) explain(outer, ctx context.Context, d *database, err error) error {
	var told *Error
	cause := context.Cause(ctx)
	switch {
	case err == nil || errors.As(err, &told):
		return err
	case outer.Err() != nil:
		return context.Cause(outer)
	case errors.Is(cause, errTime):
		return limited("The statement was stopped after %s, and changed nothing. Make it do less: use an index, a LIMIT, or smaller steps.", s.cfg.Timeout)
	case errors.Is(cause, errMemory):
		return limited("The statement was stopped because it needs too much memory, and changed nothing. Make it sort, group or join less at once.")
	case d.policy.denied != "":
		return invalid("%s", d.policy.denied)
	}
	switch code(err) {
	case lib.SQLITE_FULL:
		return limited("There is no room: a database has at most %d MB, and all databases of a session %d MB together. Nothing was changed; delete what is not needed any more.",
			s.cfg.DatabaseBytes>>20, s.cfg.SessionBytes>>20)
	case lib.SQLITE_TOOBIG:
		return limited("A value, row or statement is larger than %d KB. Nothing was changed.", maxValueBytes>>10)
	case lib.SQLITE_NOMEM:
		return limited("The statement needs too much memory, and changed nothing.")
	case lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN, lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB, lib.SQLITE_BUSY:
		return fmt.Errorf("%w: a database of a session: %w", perdure.Storage, err)
	}
	return invalid("%s", errorCode().ReplaceAllString(err.Error(), ""))
}
