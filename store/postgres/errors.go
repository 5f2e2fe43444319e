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

	// errLost marks the error with which a connection ended.
	errLost = errors.New("the connection to the database is lost")
)

// The states of SQL (SQLSTATE) that mean something here.
const (
	stateSerialization  = "40001"
	stateDeadlock       = "40P01"
	stateLockTimeout    = "55P03"
	stateCanceled       = "57014" // by statement_timeout, or by somebody
	stateIdleTimeout    = "25P03"
	stateReadOnly       = "25006" // a standby
	stateUnique         = "23505"
	stateNoText         = "22021" // whatever comes from outside is BYTEA, so this is an id that was not checked
	stateTooLarge       = "54000" // of a row in an index, among others
	stateFuture         = "22023" // of pg_xact_status: no transaction has had this number yet
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

// state returns the SQLSTATE of an error, or nothing.
func state(err error) string {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return ""
	}
	return e.Code
}

// isLost reports that the connection is gone, or could not be made.
func isLost(err error) bool {
	for _, gone := range []error{errLost, io.EOF, io.ErrUnexpectedEOF, driver.ErrBadConn, sql.ErrConnDone, pgconn.ErrConnClosed} {
		if errors.Is(err, gone) {
			return true
		}
	}
	var network net.Error
	var unmade *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &unmade)
}

// passes reports an error after which the same transaction may succeed: its connection broke, the database is away for now,
// or another transaction stood in its way. Nothing of it is stored, unless it came from COMMIT.
func passes(err error) bool {
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
		return strings.HasPrefix(code, classConnection) || strings.HasPrefix(code, classOperator) || strings.HasPrefix(code, classResources)
	}
}

// isRefusal reports that the server does not want us: who we say we are, or which database we want, is wrong.
func isRefusal(err error) bool {
	code := state(err)
	return code == stateNoDatabase || strings.HasPrefix(code, classAuthentication)
}

// explain is sqlstore.Dialect.Explain. A programming error keeps its words and has no kind.
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
		return fmt.Errorf("%w: it is no text: it has a NUL or is not UTF-8: %w", perdure.Invalid, err)
	case code == stateTooLarge:
		return fmt.Errorf("%w: the database server has no room in an index for a name that long, a path or the id of a call; use a shorter one: %w", perdure.Limit, err)
	case isRefusal(err):
		return fmt.Errorf("%w: the database server refuses us; check the user, the password and the name of the database in its URL: %w", perdure.Unavailable, err)
	case code == stateReadOnly:
		return fmt.Errorf("%w: the database server takes no writes: it may be a standby; name the primary in the URL: %w", perdure.Unavailable, err)
	case code == stateCanceled:
		return fmt.Errorf("%w: a statement took longer than the database server was told to let it, or an operator ended it; give it more with Patience: %w", perdure.Unavailable, err)
	case passes(err):
		return fmt.Errorf("%w: the database cannot be reached, or is busy; look whether its server runs: %w", perdure.Unavailable, err)
	}
	return err
}
