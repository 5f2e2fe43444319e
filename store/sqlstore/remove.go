package sqlstore

import (
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// The statements that remove a session. Every table with a session id belongs here, except where
// the id is only a reference: the lineage of a fork, and requests.
const (
	countTies = `SELECT
		(SELECT COUNT(*) FROM call WHERE session_id = $1 AND state = 'running'),
		(SELECT COUNT(*) FROM task WHERE session_id = $1 AND state IN ('queued', 'running', 'awaiting_input') AND kind <> 'monitor'),
		(SELECT COUNT(*) FROM session WHERE parent_id = $1 AND parent_id <> '')`

	removeLogs       = `DELETE FROM task_log WHERE task_id IN (SELECT id FROM task WHERE session_id = $1)`
	removeMessages   = `DELETE FROM task_message WHERE task_id IN (SELECT id FROM task WHERE session_id = $1)`
	removeDeliveries = `DELETE FROM delivery WHERE session_id = $1`
	removeApprovals  = `DELETE FROM approval WHERE session_id = $1`
	removeTasks      = `DELETE FROM task WHERE session_id = $1`
	removeCalls      = `DELETE FROM call WHERE session_id = $1`
	removeSpawns     = `DELETE FROM spawn WHERE session_id = $1`
	removePartials   = `DELETE FROM partial WHERE session_id = $1`
	removeFiles      = `DELETE FROM file WHERE session_id = $1`
	removeResources  = `DELETE FROM resource WHERE session_id = $1`
	orphanLeases     = `UPDATE lease SET session_id = '' WHERE session_id = $1` // leases may outlive their session
	removeValues     = `DELETE FROM session_value WHERE session_id = $1`
	removeSecrets    = `DELETE FROM session_secret WHERE session_id = $1`
	removeSnapshot   = `DELETE FROM snapshot WHERE session_id = $1`
	removeEvents     = `DELETE FROM event WHERE session_id = $1`
	removeSession    = `DELETE FROM session WHERE id = $1`
)

// removals returns the statements in order: a row is removed after the rows that refer to it.
func removals() []string {
	return []string{
		removeLogs, removeMessages, removeDeliveries, removeApprovals, removeTasks, removeCalls, removeSpawns,
		removePartials,
		removeFiles, removeImages, removeResources, orphanLeases, orphanPayments, removeScheduleFires, removeSchedules,
		removeValues, removeSecrets, removeHookDeliveries, removeHooks, removeLabels, removeGrants, removeSnapshot, removeEvents,
		removeSession,
	}
}

// Remove removes a session with everything that belongs to it.
func (tx sessionStore) Remove(id perdure.SessionID) error {
	delete(tx.locks.last, id)
	s, err := one(tx.Tx, scanSession, selectSession+tx.dialect.RowLock, id)
	if err == nil {
		var ties store.Ties
		if ties, err = one(tx.Tx, scanTies, countTies, id); err == nil {
			err = store.Removable(s, ties)
		}
	}
	if err == nil {
		err = tx.removeBudgets(id)
	}
	for _, statement := range removals() {
		if err == nil {
			_, err = tx.exec(statement, id)
		}
	}
	if err != nil {
		return fmt.Errorf("remove session %s: %w", id, err)
	}
	tx.noteAppended(id) // so that its watchers notice
	return nil
}

func scanTies(r row) (t store.Ties, err error) {
	err = r.Scan(&t.Calls, &t.Tasks, &t.Children)
	return t, err
}
