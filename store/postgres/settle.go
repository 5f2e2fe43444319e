package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
)

// The statements about the outcome of a transaction. endBackend ends the server process that runs
// it, if it still does: a connection that broke on our side may stay open on the server's for a
// long time.
const (
	askOutcome = `SELECT COALESCE(pg_xact_status(CAST($1 AS xid8)), ''), COALESCE((SELECT word FROM server_life), '')`
	endBackend = `SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE pid = CAST($1 AS INTEGER) AND backend_xid = CAST(CAST($2 AS xid8) AS xid)`
)

// errOtherEra explains why the server's answer about a transaction is not used.
var errOtherEra = errors.New("the server crashed or failed over since, so the transaction's id may belong to another " +
	"transaction")

// settle finds out the outcome of a transaction whose COMMIT was not answered (R10). It returns nil
// if the transaction was committed, and undone if it was not. It asks until Config.RetryTimeout is
// over; once ctx has ended, for at most another second.
//
// Without settle, running the transaction again could store its effects twice, and returning an
// error could hide a stored commit.
func (s *Store) settle(ctx context.Context, lost transaction, cause error) error {
	asking, stop := linger(ctx, s.cfg.RetryTimeout)
	defer stop()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		outcome, err := s.outcome(asking, lost)
		switch {
		case err == nil && outcome == "committed":
			return nil
		case err == nil && outcome == "aborted", state(err) == stateFuture:
			return rolledBack{fmt.Errorf("%w: %w", errLost, cause)}
		case err == nil && outcome == "", err != nil && !isTransient(err) && asking.Err() == nil:
			// the server does not know the transaction any more, or answers about another one
			return inDoubt(errors.Join(err, cause))
		}
		if !s.pause(asking, jittered(pause)) {
			return inDoubt(errors.Join(err, cause))
		}
	}
}

// outcome asks the server for the outcome of a transaction: committed, aborted, in progress, or "".
// It ends a transaction in progress, so that the next call has an answer.
//
// After a crash the server gives transaction ids again that it had not written to disk. An answer
// from another server era is therefore not used. An id that the server has not reached yet does
// prove that nothing was committed, since the server writes an id to disk before its commit.
func (s *Store) outcome(ctx context.Context, lost transaction) (said string, err error) {
	ctx, stop := context.WithTimeout(ctx, s.cfg.attempt())
	defer stop()
	var word string
	if err := s.readers.QueryRowContext(ctx, askOutcome, lost.number).Scan(&said, &word); err != nil {
		return "", err
	}
	if word != lost.era {
		return "", errOtherEra
	}
	if said != "in progress" {
		return said, nil
	}
	var ended int64
	return said, s.readers.QueryRowContext(ctx, endBackend, lost.backend, lost.number).Scan(&ended)
}

func inDoubt(err error) error {
	return fmt.Errorf("%w: the outcome of the commit is in doubt: read back what it would have written before acting "+
		"on it: %w", perdure.Unavailable, err)
}
