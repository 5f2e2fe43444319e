package sqlstore

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// The statements of bulks. ended_us 0 means that a bulk is running.
const (
	insertBulk = `INSERT INTO bulk (org, id, worker_id, begun_us, ended_us, request, plan, progress)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id, org) DO NOTHING`
	selectBulks = `SELECT org, id, worker_id, begun_us, ended_us, request, substr(plan, 1, 0), progress FROM bulk
		WHERE id = $1 ORDER BY org`
	selectRunningBulks = `SELECT org, id, worker_id, begun_us, ended_us, request, plan, progress FROM bulk
		WHERE ended_us = 0 ORDER BY begun_us, id, org`
	saveBulk = `UPDATE bulk SET progress = $4 WHERE org = $1 AND id = $2 AND worker_id = $3 AND ended_us = 0`
	endBulk  = `UPDATE bulk SET progress = $4, ended_us = $5, plan = $6
		WHERE org = $1 AND id = $2 AND worker_id = $3 AND ended_us = 0`
	takeBulk   = `UPDATE bulk SET worker_id = $4 WHERE org = $1 AND id = $2 AND worker_id = $3 AND ended_us = 0`
	selectBulk = `SELECT ended_us FROM bulk WHERE org = $1 AND id = $2`
	pruneBulks = `DELETE FROM bulk WHERE (id, org) IN
		(SELECT id, org FROM bulk WHERE ended_us > 0 AND ended_us < $1 ORDER BY ended_us, begun_us, id, org LIMIT $2)`
)

// List returns the bulks with an id.
func (tx bulkStore) List(id perdure.BulkID) ([]store.Bulk, error) {
	found, err := list(tx.Tx, scanBulk, selectBulks, string(id))
	return wrapped(found, err, "bulks %s", id)
}

// Running returns the bulks that have not ended.
func (tx bulkStore) Running() ([]store.Bulk, error) {
	found, err := list(tx.Tx, scanBulk, selectRunningBulks)
	return wrapped(found, err, "running bulks")
}

// Create adds a bulk.
func (tx bulkStore) Create(b store.Bulk, ended bool) error {
	var end int64
	if ended {
		end, b.Plan = micros(tx.Now()), nil
	}
	n, err := tx.exec(insertBulk, bytesOf(b.Org), string(b.ID), string(b.Worker), micros(tx.Now()), end, bytesOf(b.Request),
		bytesOf(b.Plan), bytesOf(b.Progress))
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: it exists already", perdure.Conflict)
	}
	return wrap(err, "create bulk %s", b.ID)
}

// Save records the progress of a bulk.
func (tx bulkStore) Save(b store.Bulk, ended bool) (err error) {
	var n int64
	if ended {
		n, err = tx.exec(endBulk, bytesOf(b.Org), string(b.ID), string(b.Worker), bytesOf(b.Progress), micros(tx.Now()), bytesOf(""))
	} else {
		n, err = tx.exec(saveBulk, bytesOf(b.Org), string(b.ID), string(b.Worker), bytesOf(b.Progress))
	}
	return wrap(tx.owned(b, n, err), "save bulk %s", b.ID)
}

// Take changes the worker of a bulk.
func (tx bulkStore) Take(b store.Bulk, next perdure.WorkerID) error {
	n, err := tx.exec(takeBulk, bytesOf(b.Org), string(b.ID), string(b.Worker), string(next))
	return wrap(tx.owned(b, n, err), "take bulk %s", b.ID)
}

// owned says why a write changed nothing.
func (tx bulkStore) owned(b store.Bulk, changed int64, err error) error {
	if err != nil || changed > 0 {
		return err
	}
	if _, err = one(tx.Tx, number, selectBulk, bytesOf(b.Org), string(b.ID)); err != nil {
		return err
	}
	return fmt.Errorf("%w: worker %s does not carry it out", perdure.Lost, b.Worker)
}

// Prune removes bulks that have ended.
func (tx bulkStore) Prune(before time.Time, limit int) (int, error) {
	n, err := tx.exec(pruneBulks, micros(before), orAll(limit))
	if err != nil {
		return 0, fmt.Errorf("prune bulks: %w", err)
	}
	return int(n), nil
}

func scanBulk(r row) (b store.Bulk, err error) {
	var org []byte
	var began, ended int64
	if err = r.Scan(&org, &b.ID, &b.Worker, &began, &ended, &b.Request, &b.Plan, &b.Progress); err != nil {
		return store.Bulk{}, err
	}
	b.Org, b.BeganAt = string(org), moment(began)
	if ended > 0 {
		b.EndedAt = moment(ended)
	}
	for _, text := range []*[]byte{&b.Request, &b.Plan, &b.Progress} {
		if len(*text) == 0 {
			*text = nil
		}
	}
	return b, nil
}
