package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

var (
	errClosed = fmt.Errorf("%w: the store is closed", perdure.Unavailable)

	// errLost marks an error that ended a connection.
	errLost = errors.New("the connection to the database is lost")
)

// The SQLSTATE codes that this package handles.
const (
	stateSerialization  = "40001"
	stateDeadlock       = "40P01"
	stateLockTimeout    = "55P03"
	stateCanceled       = "57014" // by statement_timeout, or by an operator
	stateIdleTimeout    = "25P03"
	stateReadOnly       = "25006" // on a standby
	stateUnique         = "23505"
	stateNoText         = "22021" // all external data is BYTEA, so this is an unchecked id
	stateTooLarge       = "54000" // of a row in an index, among others
	stateFuture         = "22023" // of pg_xact_status: no transaction has had this id yet
	stateDiskFull       = "53100"
	stateIO             = "58030"
	stateDamagedFile    = "XX001"
	stateDamagedIndex   = "XX002"
	stateNoDatabase     = "3D000"
	classConnection     = "08"
	classAuthentication = "28"
	classResources      = "53"
	classOperator       = "57P" // shut down, crashed, starting, dropped, idle for too long
)

// state returns the SQLSTATE of an error, or "".
func state(err error) string {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return ""
	}
	return e.Code
}

// isLost reports whether the connection broke, or could not be opened.
func isLost(err error) bool {
	for _, gone := range []error{errLost, io.EOF, io.ErrUnexpectedEOF, driver.ErrBadConn, sql.ErrConnDone,
		pgconn.ErrConnClosed} {
		if errors.Is(err, gone) {
			return true
		}
	}
	var network net.Error
	var unmade *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &unmade)
}

// isTransient reports whether the same transaction may succeed after err: its connection broke, the
// database is temporarily unavailable, or another transaction conflicted with it. Nothing of it is
// stored, unless err came from COMMIT.
func isTransient(err error) bool {
	if isRefusal(err) {
		return false
	}
	switch code := state(err); code {
	case "":
		return isLost(err)
	case stateSerialization, stateDeadlock, stateLockTimeout, stateCanceled, stateIdleTimeout, stateReadOnly:
		return true
	case stateDiskFull:
		return false
	default:
		return strings.HasPrefix(code, classConnection) || strings.HasPrefix(code, classOperator) ||
			strings.HasPrefix(code, classResources)
	}
}

// isRefusal reports whether the server refuses the connection: the user, the password or the name
// of the database is wrong.
func isRefusal(err error) bool {
	code := state(err)
	return code == stateNoDatabase || strings.HasPrefix(code, classAuthentication)
}

// explain is sqlstore.Dialect.Explain. A programming error is returned unchanged and has no kind.
func explain(err error) error {
	var kind perdure.Kind
	if err == nil || errors.As(err, &kind) || errors.Is(err, context.Canceled) {
		return err
	}
	switch code := state(err); {
	case code == stateDiskFull:
		return fmt.Errorf("%w: free space on the database server; nothing was changed: %w", store.Full, err)
	case code == stateIO:
		return fmt.Errorf("%w: the database server cannot read or write its disk: %w", perdure.Storage, err)
	case code == stateDamagedFile || code == stateDamagedIndex:
		return fmt.Errorf("%w: the database is damaged; keep its files as they are: %w", perdure.Storage, err)
	case code == stateNoText:
		return fmt.Errorf("%w: the text contains a NUL or is not UTF-8: %w", perdure.Invalid, err)
	case code == stateTooLarge:
		return fmt.Errorf("%w: a path or the id of a call is too long for an index of the database server; use a "+
			"shorter one: %w", perdure.Limit, err)
	case isRefusal(err):
		return fmt.Errorf("%w: the database server refused the connection; check the user, the password and the name "+
			"of the database in its URL: %w", perdure.Unavailable, err)
	case code == stateReadOnly:
		return fmt.Errorf("%w: the database server does not accept writes and may be a standby; use the URL of the "+
			"primary: %w", perdure.Unavailable, err)
	case code == stateCanceled:
		return fmt.Errorf("%w: a statement took longer than its limit, or an operator cancelled it; raise the limit "+
			"with RetryTimeout: %w", perdure.Unavailable, err)
	case isTransient(err):
		return fmt.Errorf("%w: the database cannot be reached, or is busy; check whether its server is running: %w",
			perdure.Unavailable, err)
	}
	return err
}
