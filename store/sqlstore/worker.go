package sqlstore

import (
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

const workerColumns = `id, host, boot_id, pid, home_id, started_us, lease_us`

// The statements of workers.
const (
	putWorker = `INSERT INTO worker (` + workerColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (id) DO UPDATE SET host = excluded.host, boot_id = excluded.boot_id, pid = excluded.pid,
			home_id = excluded.home_id,
			started_us = excluded.started_us, lease_us = excluded.lease_us`
	selectWorker = `SELECT ` + workerColumns + ` FROM worker WHERE id = $1`
	putHome      = `INSERT INTO home (id, host, seen_us) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET host = excluded.host`
	leaveHome = `UPDATE home SET seen_us = $2 WHERE seen_us < $2 AND id = (SELECT home_id FROM worker WHERE id = $1)`
	loseHome  = `UPDATE home SET seen_us = COALESCE((SELECT lease_us FROM worker WHERE id = $1 AND lease_us > seen_us), seen_us)
		WHERE id = (SELECT home_id FROM worker WHERE id = $1 AND lease_us <= $2)`
	homeColumns = `id, host, seen_us, (SELECT COALESCE(MAX(lease_us), 0) FROM worker WHERE worker.home_id = home.id)`
	selectHome  = `SELECT ` + homeColumns + ` FROM home WHERE id = $1`
	listHomes   = `SELECT ` + homeColumns + ` FROM home ORDER BY id`

	selectGrant = `SELECT number FROM work_grant WHERE session_id = $1 AND task_id = $2`
	useGrant    = `INSERT INTO work_grant (session_id, task_id, worker_id, number) VALUES ($1, $2, $3, $4)
		ON CONFLICT (session_id, task_id) DO UPDATE SET worker_id = excluded.worker_id, number = excluded.number
		WHERE work_grant.number < excluded.number
			OR work_grant.number = excluded.number AND work_grant.worker_id = excluded.worker_id`
	removeGrant  = `DELETE FROM work_grant WHERE session_id = $1 AND task_id = $2`
	removeGrants = `DELETE FROM work_grant WHERE session_id = $1`

	listWorkers      = `SELECT ` + workerColumns + ` FROM worker ORDER BY id`
	extendLease      = `UPDATE worker SET lease_us = $2 WHERE id = $1`
	undoTakeUp       = `UPDATE session SET take_ups = take_ups - 1 WHERE worker_id = $1 AND worker_id <> '' AND take_ups > 0`
	deleteWorker     = `DELETE FROM worker WHERE id = $1`
	removeDeadWorker = deleteWorker + ` AND lease_us <= $2`
	stampHeartbeats  = `UPDATE task SET heartbeat_us = $2 WHERE id IN (SELECT id FROM task WHERE worker_id = $1 AND ` +
		liveStates
	listWorkerTasks = `SELECT ` + taskColumns + ` FROM task WHERE worker_id = $1 AND ` + liveStates +
		` ORDER BY position`
)

func (tx workerStore) Get(id perdure.WorkerID) (store.Worker, error) {
	err := tx.lockWorker(id, true)
	var w store.Worker
	if err == nil {
		w, err = one(tx.Tx, scanWorker, selectWorker, id)
	}
	return wrapped(w, err, "worker %s", id)
}

// List lists all rows, by id.
func (tx workerStore) List() ([]store.Worker, error) {
	found, err := list(tx.Tx, scanWorker, tx.locked(listWorkers))
	return wrapped(found, err, "list workers")
}

// Home returns a home.
func (tx workerStore) Home(id perdure.HomeID) (store.Home, error) {
	found, err := one(tx.Tx, tx.scanHome, selectHome, id)
	return wrapped(found, err, "home %s", id)
}

// Homes lists all homes, by id.
func (tx workerStore) Homes() ([]store.Home, error) {
	found, err := list(tx.Tx, tx.scanHome, listHomes)
	return wrapped(found, err, "list homes")
}

// Granted returns the number of the last grant of a work that was used.
func (tx workerStore) Granted(w store.Work) (int64, error) {
	last, err := one(tx.Tx, number, selectGrant, w.Session, w.Task)
	if missing(err) {
		return 0, nil
	}
	return wrapped(last, err, "grant of %s %s", w.Session, w.Task)
}

// UseGrant records that a grant is used. It waits for a transaction that uses another grant of the
// same work.
func (tx workerStore) UseGrant(w store.Work, by perdure.WorkerID, next int64) error {
	if next <= 0 {
		return fmt.Errorf("use grant %d of %s %s: %w: grants begin at 1", next, w.Session, w.Task, perdure.Lost)
	}
	n, err := tx.exec(useGrant, w.Session, w.Task, by, next)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: a later grant was used", perdure.Lost)
	}
	return wrap(err, "use grant %d of %s %s", next, w.Session, w.Task)
}

func (tx workerStore) scanHome(r row) (store.Home, error) {
	var h store.Home
	var host []byte
	var seen, lease int64
	err := r.Scan(&h.ID, &host, &seen, &lease)
	h.Host, h.SeenAt, h.Present = string(host), moment(max(seen, lease)), lease > micros(tx.Now())
	return h, err
}

// Disconnected asks the database for the connections of the workers' processes.
func (tx workerStore) Disconnected(only perdure.WorkerID) ([]store.Worker, error) {
	if tx.failure != nil || tx.dialect.Disconnected == nil {
		return nil, tx.failure
	}
	var workers []store.Worker
	var err error
	if only == "" {
		workers, err = tx.List()
	} else {
		workers, err = list(tx.Tx, scanWorker, selectWorker, only)
	}
	if err != nil || len(workers) == 0 {
		return nil, wrap(err, "workers without a connection")
	}
	ids := make([]perdure.WorkerID, len(workers))
	for i, w := range workers {
		ids[i] = w.ID
	}
	gone, err := tx.dialect.Disconnected(tx.ctx, tx.db, ids)
	if err != nil {
		return nil, fmt.Errorf("workers without a connection: %w", tx.failed(err))
	}
	return slices.DeleteFunc(workers, func(w store.Worker) bool { return !slices.Contains(gone, w.ID) }), nil
}

func (tx workerStore) Put(w store.Worker) error {
	err := tx.lockWorker(w.ID, false)
	if err == nil {
		_, err = tx.exec(putWorker, w.ID, bytesOf(w.Host), bytesOf(w.BootID), w.PID, w.Home,
			micros(w.StartedAt), micros(w.LeaseUntil))
	}
	if err == nil && tx.dialect.Connect != nil {
		if err = tx.dialect.Connect(tx.ctx, tx.db, w.ID); err != nil {
			err = tx.failed(err)
		}
	}
	if err == nil && w.Home != "" {
		_, err = tx.exec(putHome, w.Home, bytesOf(w.Host), micros(w.StartedAt))
	}
	return wrap(err, "put worker %s", w.ID)
}

// Renew renews the lease and sets heartbeat_at of the worker's live tasks, in three statements
// however many tasks there are. It waits only for a transaction that buries the worker or writes
// the same row. It does not wait for the worker's own transactions, which may take long, nor for
// locked tasks, which get the next heartbeat.
func (tx workerStore) Renew(id perdure.WorkerID, lease time.Duration) (store.Heartbeat, error) {
	if err := tx.lockWorker(id, true); err != nil {
		return store.Heartbeat{}, fmt.Errorf("heartbeat of worker %s: %w", id, err)
	}
	now := tx.Now()
	n, err := tx.exec(extendLease, id, micros(now.Add(lease)))
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: no such worker", perdure.Lost)
	}
	if err == nil {
		_, err = tx.exec(tx.locked(stampHeartbeats)+tx.dialect.SkipLocked+`)`, id, micros(now))
	}
	var beat store.Heartbeat
	if err == nil {
		beat.Tasks, err = list(tx.Tx, scanTask, listWorkerTasks, id)
	}
	if err != nil {
		return store.Heartbeat{}, fmt.Errorf("heartbeat of worker %s: %w", id, err)
	}
	for _, t := range beat.Tasks {
		if t.CancelRequested() {
			beat.Canceled = append(beat.Canceled, t.ID)
		}
	}
	return beat, nil
}

// Retire decrements take_ups of the sessions that the worker drives, and removes its lease.
func (tx workerStore) Retire(id perdure.WorkerID) error {
	if _, err := tx.exec(undoTakeUp, id); err != nil {
		return fmt.Errorf("retire worker %s: %w", id, err)
	}
	return tx.Workers().Remove(id)
}

func (tx workerStore) Remove(id perdure.WorkerID) error {
	err := tx.lockWorker(id, false)
	if err == nil {
		_, err = tx.exec(leaveHome, id, micros(tx.Now()))
	}
	if err == nil {
		_, err = tx.exec(deleteWorker, id)
	}
	return wrap(err, "remove worker %s", id)
}

// Elect takes the lock of a role, if no other transaction has it.
func (tx workerStore) Elect(role string) (bool, error) {
	has, err := tx.tryLock("role/" + role)
	return wrapped(has, err, "elect for role %s", role)
}

// MarkDead removes a dead worker. It holds the exclusive lock, so that no heartbeat comes
// between the check and the removal.
func (tx workerStore) MarkDead(id perdure.WorkerID) error {
	err := tx.lockWorker(id, false)
	if err == nil {
		_, err = tx.exec(loseHome, id, micros(tx.Now()))
	}
	if err == nil {
		_, err = tx.exec(removeDeadWorker, id, micros(tx.Now()))
	}
	return wrap(err, "declare worker %s dead", id)
}

// MarkDisconnected removes a worker whose process has ended. It holds the exclusive lock, as
// MarkDead does.
func (tx workerStore) MarkDisconnected(id perdure.WorkerID, until time.Time) error {
	err := tx.lockWorker(id, false)
	var gone []store.Worker
	if err == nil {
		gone, err = tx.Disconnected(id)
	}
	if err != nil || len(gone) == 0 || !gone[0].LeaseUntil.Equal(until) {
		return wrap(err, "end worker %s", id)
	}
	return tx.Workers().Remove(id)
}

func scanWorker(r row) (store.Worker, error) {
	var w store.Worker
	var host, boot []byte
	var started, lease int64
	err := r.Scan(&w.ID, &host, &boot, &w.PID, &w.Home, &started, &lease)
	w.Host, w.BootID, w.StartedAt, w.LeaseUntil = string(host), string(boot), moment(started), moment(lease)
	return w, err
}
