package postgres

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/sqlstore"
)

// The connections of a process have an advisory lock for each of its workers, shared. The server
// releases it when the last of them ends, and that is how other processes learn of the end.
const (
	lockWorkerShared = `SELECT pg_advisory_lock_shared($1)`
	listWorkerLocks  = `SELECT DISTINCT (classid::bigint << 32 | objid::bigint) FROM pg_locks WHERE locktype = 'advisory'
		AND objsubid = 1 AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND (classid::bigint << 32 | objid::bigint) = ANY($1)`
)

// workers are the workers whose connections this process knows. It is safe for concurrent use.
type workers struct {
	mu        sync.Mutex // guards the fields below
	own       []int64    // the numbers of the locks of this process
	connected map[perdure.WorkerID]bool
	since     *time.Time // when the listener of this process connected; nil: it is not connected
}

// workerLock is the number of a worker's lock.
func workerLock(id perdure.WorkerID) int64 { return lockNumber("connections/" + string(id)) }

// connectWorker is sqlstore.Dialect.Connect. The connection of the transaction gets the lock now,
// the listener soon, and others when they are opened.
func (s *Store) connectWorker(ctx context.Context, db sqlstore.DB, id perdure.WorkerID) (err error) {
	number := workerLock(id)
	s.workers.mu.Lock()
	if !slices.Contains(s.workers.own, number) {
		s.workers.own = append(s.workers.own, number)
	}
	s.workers.mu.Unlock()
	rows, err := db.QueryContext(ctx, lockWorkerShared, number)
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	s.subscriptions.lock(number)
	return nil
}

// lockWorkers takes the locks of the workers of this process for a new connection.
func (s *Store) lockWorkers(ctx context.Context, conn *pgconn.PgConn) error {
	s.workers.mu.Lock()
	own := slices.Clone(s.workers.own)
	s.workers.mu.Unlock()
	for _, number := range own {
		if _, err := conn.Exec(ctx, lockStatement(number)).ReadAll(); err != nil {
			return err
		}
	}
	return nil
}

// lockStatement is lockWorkerShared with its parameter.
func lockStatement(number int64) string {
	return "SELECT pg_advisory_lock_shared(" + strconv.FormatInt(number, 10) + ")"
}

// disconnectedWorkers is sqlstore.Dialect.Disconnected. A worker counts as connected until it was
// seen connected and then is not. Only what was seen since the listener connected counts: after an
// outage of the database, the others may still be connecting again.
func (s *Store) disconnectedWorkers(
	ctx context.Context, db sqlstore.DB, ids []perdure.WorkerID,
) (gone []perdure.WorkerID, err error) {
	s.workers.mu.Lock()
	since := s.workers.since
	s.workers.mu.Unlock()
	numbers := make([]int64, len(ids))
	for i, id := range ids {
		numbers[i] = workerLock(id)
	}
	locked, err := lockedOf(ctx, db, numbers)
	if err != nil {
		return nil, err
	}
	s.workers.mu.Lock()
	defer s.workers.mu.Unlock()
	if since == nil || since != s.workers.since {
		return nil, nil
	}
	for i, id := range ids {
		if locked[numbers[i]] {
			s.workers.connected[id] = true
		} else if s.workers.connected[id] {
			gone = append(gone, id)
		}
	}
	return gone, nil
}

// lockedOf returns those of the locks that a connection has.
func lockedOf(ctx context.Context, db sqlstore.DB, numbers []int64) (map[int64]bool, error) {
	rows, err := db.QueryContext(ctx, listWorkerLocks, numbers)
	if err != nil {
		return nil, err
	}
	locked := map[int64]bool{}
	for rows.Next() {
		var number int64
		err = errors.Join(err, rows.Scan(&number))
		locked[number] = true
	}
	return locked, errors.Join(err, rows.Err(), rows.Close())
}

// setListening notes that the listener has connected, or lost its connection.
func (w *workers) setListening(listening bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.connected, w.since = map[perdure.WorkerID]bool{}, nil
	if listening {
		now := time.Now()
		w.since = &now
	}
}
