package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
)

// The statements that ask about a transaction. endBackend ends the process that carries it, if it still does: a connection
// that broke on our side may stand on the server's for a long time.
const (
	askOutcome = `SELECT COALESCE(pg_xact_status(CAST($1 AS xid8)), '')`
	endBackend = `SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE pid = CAST($1 AS INTEGER) AND backend_xid = CAST(CAST($2 AS xid8) AS xid)`
)

// settle finds out what became of a transaction whose COMMIT was not answered (R10): nil when it was committed, undone when it was not.
// Until Config.Patience is over it asks whenever the database answers.
func (s *Store) settle(ctx context.Context, lost transaction, cause error) error {
	asking, stop := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Patience)
	defer stop()
	context.AfterFunc(ctx, stop)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		outcome, err := s.outcome(asking, lost)
		switch {
		case err == nil && outcome == "committed":
			return nil
		case err == nil && outcome == "aborted":
			return undone{fmt.Errorf("%w: %w", errLost, cause)}
		case err == nil && outcome == "", err != nil && !passes(err) && asking.Err() == nil:
			return inDoubt(errors.Join(err, cause)) // the server has forgotten it, or never knew it
		}
		if !s.rest(asking, jittered(pause)) {
			return inDoubt(errors.Join(err, cause))
		}
	}
}

// outcome asks the server about a transaction: committed, aborted, in progress, or nothing. One in progress is ended, so
// that the next question has an answer.
func (s *Store) outcome(ctx context.Context, lost transaction) (said string, err error) {
	ctx, stop := context.WithTimeout(ctx, s.cfg.attempt())
	defer stop()
	if err := s.readers.QueryRowContext(ctx, askOutcome, lost.number).Scan(&said); err != nil {
		return "", err
	}
	if said != "in progress" {
		return said, nil
	}
	var ended int64
	return said, s.readers.QueryRowContext(ctx, endBackend, lost.backend, lost.number).Scan(&ended)
}

func inDoubt(err error) error {
	return fmt.Errorf("%w: the outcome of the commit is in doubt; read back what it would have written before acting on it: %w", perdure.Unavailable, err)
}
