package sqlstore

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// The statements of retention. The words of listEarlierEnds and listOldTasks are those of a partial index.
const (
	listEarlierEnds = `SELECT ` + taskColumns + ` FROM task WHERE ended_us = -1 AND ended_us <> 0`
	noteEnd         = `UPDATE task SET ended_us = $2 WHERE id = $1`
	listOldTasks    = `SELECT ` + taskColumns + ` FROM task WHERE ended_us < $1 AND ended_us <> 0
		AND NOT EXISTS (SELECT 1 FROM delivery WHERE delivery.task_id = task.id AND NOT claimed)
		AND NOT EXISTS (SELECT 1 FROM approval WHERE approval.task_id = task.id AND approval.task_id <> '' AND approval.state = 'open')
		ORDER BY ended_us, position`
	deleteTask         = `DELETE FROM task WHERE id = $1`
	deleteTaskLog      = `DELETE FROM task_log WHERE task_id = $1`
	deleteTaskMessages = `DELETE FROM task_message WHERE task_id = $1`
	deleteDeliveries   = `DELETE FROM delivery WHERE task_id = $1`
	deleteApprovals    = `DELETE FROM approval WHERE task_id = $1 AND task_id <> ''`
)

// PruneTasks removes the tasks that ended first, with what belongs to them.
func (tx *Tx) PruneTasks(before time.Time, limit int) ([]perdure.Task, error) {
	if err := tx.noteEarlierEnds(); err != nil {
		return nil, fmt.Errorf("prune tasks: %w", err)
	}
	if !tx.alone() { // what hangs on a task may change until its row is locked: it is looked at again, below
		if _, err := list(tx, scanTask, tx.locked(listOldTasks), micros(before)); err != nil {
			return nil, fmt.Errorf("prune tasks: %w", err)
		}
	}
	var old []perdure.Task
	err := each(tx, func(r row) (bool, error) {
		t, err := scanTask(r)
		if err == nil && store.Prunable(t, before) {
			old = append(old, t)
		}
		return limit <= 0 || len(old) < limit, err
	}, tx.locked(listOldTasks), micros(before))
	if err != nil {
		return nil, fmt.Errorf("prune tasks: %w", err)
	}
	for _, t := range old {
		for _, statement := range []string{deleteTaskLog, deleteTaskMessages, deleteDeliveries, deleteApprovals, deleteTask} {
			if _, err := tx.exec(statement, t.ID); err != nil {
				return nil, fmt.Errorf("prune task %s: %w", t.ID, err)
			}
		}
	}
	return old, nil
}

// noteEarlierEnds fills in when the tasks of earlier schemas ended. Once it has run, there are none.
func (tx *Tx) noteEarlierEnds() error {
	earlier, err := list(tx, scanTask, tx.locked(listEarlierEnds))
	if err != nil {
		return err
	}
	for _, t := range earlier {
		if _, err := tx.exec(noteEnd, t.ID, endedMicros(t)); err != nil {
			return err
		}
	}
	return nil
}

// endedMicros is the ended_us of a record: 0 while it lives.
func endedMicros(t perdure.Task) int64 {
	if !t.State.Terminal() {
		return 0
	}
	return micros(t.FinishedAt)
}
