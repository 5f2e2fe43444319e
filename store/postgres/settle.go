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
	askOutcome = `SELECT COALESCE(pg_xact_status(CAST($1 AS xid8)), ''), COALESCE((SELECT word FROM server_life), '')`
	endBackend = `SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE pid = CAST($1 AS INTEGER) AND backend_xid = CAST(CAST($2 AS xid8) AS xid)`
)

// errOtherLife is the reason why the server's word about a transaction is not believed.
var errOtherLife = errors.New("the server was restarted since, and its number may be another transaction's")

// settle finds out what became of a transaction whose COMMIT was not answered (R10): nil when it was committed, undone when it was not.
// Until Config.Patience is over it asks whenever the database answers; once ctx has ended, for another second at most.
func (s *Store) settle(ctx context.Context, lost transaction, cause error) error {
	asking, stop := linger(ctx, s.cfg.Patience)
	defer stop()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		outcome, err := s.outcome(asking, lost)
		switch {
		case err == nil && outcome == "committed":
			return nil
		case err == nil && outcome == "aborted", state(err) == stateFuture:
			return undone{fmt.Errorf("%w: %w", errLost, cause)}
		case err == nil && outcome == "", err != nil && !passes(err) && asking.Err() == nil:
			return inDoubt(errors.Join(err, cause)) // the server has forgotten it, or speaks of another one
		}
		if !s.rest(asking, jittered(pause)) {
			return inDoubt(errors.Join(err, cause))
		}
	}
}

// outcome asks the server about a transaction: committed, aborted, in progress, or nothing. One in progress is ended, so
// that the next question has an answer. A server that crashed gives the numbers anew that it had not written down: in
// another life than the transaction's its word says nothing. It does where it has not come to the number yet, which it
// would have written down before a commit.
func (s *Store) outcome(ctx context.Context, lost transaction) (said string, err error) {
	ctx, stop := context.WithTimeout(ctx, s.cfg.attempt())
	defer stop()
	var word string
	if err := s.readers.QueryRowContext(ctx, askOutcome, lost.number).Scan(&said, &word); err != nil {
		return "", err
	}
	if word != lost.life {
		return "", errOtherLife
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
