package sqlstore

import (
	"fmt"
	"math"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// prunePage is how many old tasks are selected at once.
const prunePage = 100

// The statements of retention. The conditions of listEarlierEnds and chooseOldTasks are literally
// those of a partial index.
const (
	listEarlierEnds = `SELECT ` + taskColumns + ` FROM task WHERE ended_us = -1 AND ended_us <> 0`
	recordEnd       = `UPDATE task SET ended_us = $2 WHERE id = $1`
	nothingRefers   = `NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.task_id = task.id AND NOT claimed)
		AND NOT EXISTS (SELECT 1 FROM approval WHERE approval.task_id = task.id AND approval.task_id <> '' AND approval.state = 'open')`
	chooseOldTasks = `SELECT id, ended_us, position FROM task WHERE ended_us < $1 AND ended_us <> 0
		AND (ended_us > $2 OR ended_us = $2 AND position > $3) AND ` + nothingRefers + ` ORDER BY ended_us, position LIMIT $4`
	lockOldTask        = `SELECT id FROM task WHERE id = $1`
	selectOldTask      = `SELECT ` + taskColumns + ` FROM task WHERE id = $1 AND ended_us <> 0 AND ` + nothingRefers
	deleteTask         = `DELETE FROM task WHERE id = $1`
	deleteTaskLog      = `DELETE FROM task_log WHERE task_id = $1`
	deleteTaskMessages = `DELETE FROM task_message WHERE task_id = $1`
	deleteDeliveries   = `DELETE FROM delivery WHERE task_id = $1`
	deleteApprovals    = `DELETE FROM approval WHERE task_id = $1 AND task_id <> ''`
)

// Prune removes the tasks that ended first, with what belongs to them.
func (tx taskStore) Prune(before time.Time, limit int) ([]perdure.Task, error) {
	if err := tx.noteEarlierEnds(); err != nil {
		return nil, fmt.Errorf("prune tasks: %w", err)
	}
	old, err := tx.oldTasks(before, limit)
	if err != nil {
		return nil, fmt.Errorf("prune tasks: %w", err)
	}
	for _, t := range old {
		for _, statement := range []string{deleteTaskLog, deleteTaskMessages, deleteDeliveries, deleteApprovals,
			deleteTask} {
			if _, err := tx.exec(statement, t.ID); err != nil {
				return nil, fmt.Errorf("prune task %s: %w", t.ID, err)
			}
		}
		if _, err := tx.exec(removeGrant, t.Session, t.ID); err != nil {
			return nil, fmt.Errorf("prune task %s: %w", t.ID, err)
		}
	}
	return old, nil
}

// ending is the position of a task among those that ended.
type ending struct {
	id              perdure.TaskID
	ended, position int64
}

func scanEnding(r row) (e ending, err error) {
	err = r.Scan(&e.id, &e.ended, &e.position)
	return e, err
}

// oldTasks returns up to limit tasks that may be pruned, the oldest end first, locked. They are
// selected by an index, without reading their records and without locks.
func (tx *Tx) oldTasks(before time.Time, limit int) (old []perdure.Task, err error) {
	last := ending{ended: math.MinInt64}
	for limit <= 0 || len(old) < limit {
		page, err := list(tx, scanEnding, chooseOldTasks, micros(before), last.ended, last.position, prunePage)
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			t, may, err := tx.oldTask(e.id, before)
			if err != nil {
				return nil, err
			}
			if may {
				old = append(old, t)
			}
			if len(old) == limit {
				break
			}
		}
		if len(page) < prunePage {
			break
		}
		last = page[len(page)-1]
	}
	return old, nil
}

// oldTask checks a selected task again under its lock, because it may have changed since. A task
// that another transaction has locked is skipped.
func (tx *Tx) oldTask(id perdure.TaskID, before time.Time) (t perdure.Task, may bool, err error) {
	if !tx.alone() {
		_, err = one(tx, name[perdure.TaskID], tx.locked(lockOldTask)+tx.dialect.SkipLocked, id)
	}
	if err == nil {
		t, err = one(tx, scanTask, selectOldTask, id)
	}
	switch {
	case missing(err):
		return t, false, nil
	case err != nil:
		return t, false, err
	}
	if ended := endedMicros(t); ended == 0 {
		// written by a version that did not leave such tasks out; it is not found again
		_, err = tx.exec(recordEnd, id, ended)
	}
	return t, err == nil && store.Prunable(t, before), err
}

// noteEarlierEnds fills in when the tasks of earlier schemas ended. Once it has run, none are left.
func (tx *Tx) noteEarlierEnds() error {
	earlier, err := list(tx, scanTask, tx.locked(listEarlierEnds))
	if err != nil {
		return err
	}
	for _, t := range earlier {
		if _, err := tx.exec(recordEnd, t.ID, endedMicros(t)); err != nil {
			return err
		}
	}
	return nil
}

// endedMicros returns the ended_us of a record. It is 0 while the task may not be pruned, however
// old it is, so that the index of old tasks does not contain it.
func endedMicros(t perdure.Task) int64 {
	if !store.Prunable(t, t.FinishedAt.Add(time.Second)) {
		return 0
	}
	return micros(t.FinishedAt)
}
