package sqlstore

import (
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

const (
	taskColumns = `id, session_id, state, heartbeat_us, record`

	countColumns = `session_id, COUNT(*), SUM(CASE WHEN origin IN ('detached', 'host') THEN 1 ELSE 0 END),
		SUM(CASE WHEN origin = 'subagent' THEN 1 ELSE 0 END), SUM(CASE WHEN kind = 'monitor' THEN 1 ELSE 0 END), MIN(position)`

	// liveStates are the states of perdure.TaskState.Live, literally as in the partial indexes of
	// task.
	liveStates = `state IN ('queued', 'running', 'awaiting_input')`

	// taskMatch contains every condition of store.TaskFilter but After. Conditions in front of it
	// only let the database use an index.
	taskMatch = `($1 = '' OR session_id = $1) AND ($2 = '' OR worker_id = $2) AND ($3 = '' OR kind = $3)
		AND ($4 = '' OR state IN ($4, $5, $6, $7, $8, $9, $10)) AND ($12 = '' OR worker_id <> $12)
		AND ($13 = '' OR home_id = $13)`
	positionOfAfter = `(SELECT position FROM task WHERE id = $14)`

	// The orders of a list. The database starts at the position of After.
	tasksOldestFirst = taskMatch + ` AND position > CASE WHEN $14 = '' THEN -1 ELSE ` + positionOfAfter + ` END
		ORDER BY position LIMIT $11`
	tasksNewestFirst = taskMatch + ` AND position < CASE WHEN $14 = '' THEN 9223372036854775807 ELSE ` + positionOfAfter + ` END
		ORDER BY position DESC LIMIT $11`

	fromTasks     = `SELECT ` + taskColumns + ` FROM task WHERE `
	fromOwnTasks  = fromTasks + `session_id = $1 AND `
	fromLiveTasks = fromTasks + liveStates + ` AND `

	// fromStates selects tasks by their states alone. The index of the states has the positions, so
	// the database reads no rows but those of the list.
	fromStates = fromTasks + `position IN (SELECT position FROM task WHERE state IN ($1, $2, $3, $4, $5, $6, $7) AND position `
)

// The statements of tasks.
const (
	taskRow = `INSERT INTO task (id, session_id, kind, state, worker_id, attempt, heartbeat_us, record, origin, ended_us,
		home_id, position) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, `
	taskPosition   = `(SELECT COALESCE(MAX(position), 0) + 1 FROM task)`
	taskOnce       = `) ON CONFLICT (id) DO NOTHING`
	insertTask     = taskRow + taskPosition + taskOnce
	insertTaskNext = taskRow + positionNext + taskOnce

	selectTask    = `SELECT ` + taskColumns + ` FROM task WHERE id = $1 AND ($2 = '' OR session_id = $2)`
	listTasks     = fromTasks + tasksOldestFirst
	listOwnTasks  = fromOwnTasks + tasksOldestFirst
	listLiveTasks = fromLiveTasks + tasksOldestFirst
	listStates    = fromStates + `> CASE WHEN $8 = '' THEN -1 ELSE (SELECT position FROM task WHERE id = $8) END
		ORDER BY position LIMIT $9) ORDER BY position`

	listNewestTasks     = fromTasks + tasksNewestFirst
	listNewestOwnTasks  = fromOwnTasks + tasksNewestFirst
	listNewestLiveTasks = fromLiveTasks + tasksNewestFirst
	listNewestStates    = fromStates + `< CASE WHEN $8 = '' THEN 9223372036854775807 ELSE (SELECT position FROM task WHERE id = $8) END
		ORDER BY position DESC LIMIT $9) ORDER BY position DESC`

	countTasks    = `SELECT ` + countColumns + ` FROM task WHERE state = $1 GROUP BY session_id ORDER BY MIN(position)`
	countOwnTasks = `SELECT ` + countColumns + ` FROM task WHERE state = $1 AND session_id = $2 GROUP BY session_id`
	updateTask    = `UPDATE task SET state = $2, worker_id = $3, attempt = $4, record = $5, ended_us = $6, home_id = $7, heartbeat_us = $8
		WHERE id = $1`
)

// taskStates is the number of state parameters in taskMatch: there are no more states.
const taskStates = 7

func (tx taskStore) Get(session perdure.SessionID, id perdure.TaskID) (perdure.Task, error) {
	return tx.taskBy(session, id)
}

// List lists records in the order of creation, or in the reverse order.
func (tx taskStore) List(filter store.TaskFilter) ([]perdure.Task, error) {
	query, newest := listTasks, listNewestTasks
	live := len(filter.States) > 0
	for _, s := range filter.States {
		if !s.Valid() {
			return nil, fmt.Errorf("list tasks: %w state %q", perdure.Invalid, s)
		}
		live = live && s.Live()
	}
	states := stateSlots(filter.States)
	args := append([]any{filter.Session, filter.Worker, filter.Kind}, states...)
	args = append(args, orAll(filter.Limit), filter.ExceptWorker, filter.Home, filter.After)
	switch {
	case filter.Session != "":
		query, newest = listOwnTasks, listNewestOwnTasks
	case byStates(filter):
		query, newest = listStates, listNewestStates
		args = append(states, filter.After, orAll(filter.Limit))
	case live:
		query, newest = listLiveTasks, listNewestLiveTasks
	}
	if filter.Newest {
		query = newest
	}
	err := tx.hold(filter.Session)
	var found []perdure.Task
	if err == nil {
		found, err = list(tx.Tx, scanTask, tx.locked(query), args...)
	}
	return wrapped(found, err, "list tasks")
}

// byStates reports whether a filter names states and nothing else. Most tasks have succeeded, so a
// few of those are found sooner in the order of all tasks.
func byStates(f store.TaskFilter) bool {
	few := f.Limit > 0 && slices.Contains(f.States, perdure.TaskSucceeded)
	return len(f.States) > 0 && !few && f.Worker == "" && f.ExceptWorker == "" && f.Kind == "" && f.Home == ""
}

// Count counts the tasks in a state by session. An index covers the query.
func (tx taskStore) Count(state perdure.TaskState, session perdure.SessionID) ([]store.TaskCount, error) {
	if !state.Valid() {
		return nil, fmt.Errorf("count tasks: %w state %q", perdure.Invalid, state)
	}
	query, args := countTasks, []any{state}
	if session != "" {
		query, args = countOwnTasks, append(args, session)
	}
	err := tx.holdCount(session)
	var found []store.TaskCount
	if err == nil {
		found, err = list(tx.Tx, scanTaskCount, query, args...)
	}
	return wrapped(found, err, "count tasks")
}

// holdCount lets one transaction count tasks at a time, since there are no rows to lock. Every
// transaction that adds a task to a session, or changes its state, holds the session's lock.
func (tx *Tx) holdCount(session perdure.SessionID) error {
	if session != "" {
		return tx.hold(session)
	}
	return tx.lock("tasks", false)
}

func scanTaskCount(r row) (c store.TaskCount, err error) {
	var position int64 // used by the statement for the order only
	err = r.Scan(&c.Session, &c.N, &c.Detached, &c.Agents, &c.Monitors, &position)
	return c, err
}

// stateSlots returns the state parameters of taskMatch: each state once, then the first one
// repeated. No state gives empty parameters.
func stateSlots(states []perdure.TaskState) []any {
	params := make([]any, 0, taskStates)
	seen := make(map[perdure.TaskState]bool, taskStates)
	for _, s := range states {
		if !seen[s] {
			params = append(params, s)
		}
		seen[s] = true
	}
	var first any = ""
	if len(params) > 0 {
		first = params[0]
	}
	for len(params) < taskStates {
		params = append(params, first)
	}
	return params
}

// Create adds a record, or returns the one with its id.
func (tx taskStore) Create(t perdure.Task) (stored perdure.Task, created bool, err error) {
	if !t.State.Valid() {
		return perdure.Task{}, false, fmt.Errorf("create task %s: %w state %q", t.ID, perdure.Invalid, t.State)
	}
	t, body, err := asStored(t)
	if err != nil {
		return perdure.Task{}, false, fmt.Errorf("create task %s: %w", t.ID, err)
	}
	if err := tx.hold(t.Session); err != nil {
		return perdure.Task{}, false, fmt.Errorf("create task %s: %w", t.ID, err)
	}
	n, err := tx.exec(tx.withPosition(insertTask, insertTaskNext), t.ID, t.Session, t.Kind, t.State, t.Worker, t.Attempt,
		micros(t.HeartbeatAt), body, t.Origin,
		endedMicros(t), t.Home)
	if err != nil {
		return perdure.Task{}, false, fmt.Errorf("create task %s: %w", t.ID, err)
	}
	if n == 1 {
		return t, true, nil
	}
	stored, err = tx.taskBy("", t.ID)
	if err != nil {
		return perdure.Task{}, false, fmt.Errorf("create: %w", err)
	}
	return stored, false, nil
}

func (tx taskStore) Update(session perdure.SessionID, id perdure.TaskID,
	u perdure.TaskUpdate) (perdure.TaskChange, error) {
	t, err := tx.taskBy(session, id)
	if err != nil {
		return perdure.TaskChange{}, fmt.Errorf("update: %w", err)
	}
	change, err := t.Update(u, tx.Now())
	if err != nil {
		return change, fmt.Errorf("update task %s: %w", id, err)
	}
	if change.Answer != perdure.Updated {
		return change, nil
	}
	record, body, err := asStored(change.Task)
	if err == nil {
		_, err = tx.exec(updateTask, id, record.State, record.Worker, record.Attempt, body, endedMicros(record), record.Home,
			micros(record.HeartbeatAt))
	}
	if err != nil {
		return perdure.TaskChange{Task: t}, fmt.Errorf("update task %s: %w", id, err)
	}
	change.Task = record
	return change, nil
}

// taskBy returns a record, locked. An empty session means any.
func (tx *Tx) taskBy(session perdure.SessionID, id perdure.TaskID) (t perdure.Task, err error) {
	if err = tx.holdTask(session, id); err == nil {
		t, err = one(tx, scanTask, tx.locked(selectTask), id, session)
	}
	return wrapped(t, err, "task %s", id)
}

// asStored returns a record as it will be read back, and its encoding. The encoding omits
// heartbeat_at, which is a column, so that a heartbeat is one UPDATE. Invalid: the record cannot be
// encoded as JSON.
func asStored(t perdure.Task) (record perdure.Task, body []byte, err error) {
	t.HeartbeatAt, t.DeadlineAt, t.CancelRequestedAt = micro(t.HeartbeatAt), micro(t.DeadlineAt),
		micro(t.CancelRequestedAt)
	t.CreatedAt, t.StartedAt, t.DetachedAt = micro(t.CreatedAt), micro(t.StartedAt), micro(t.DetachedAt)
	t.FinishedAt, t.UpdatedAt = micro(t.FinishedAt), micro(t.UpdatedAt)
	heartbeat := t.HeartbeatAt
	t.HeartbeatAt = moment(0)
	if body, err = encode(t); err == nil {
		err = decode(body, &record)
	}
	if err != nil {
		return t, nil, fmt.Errorf("%w record: %w", perdure.Invalid, err)
	}
	record.HeartbeatAt = heartbeat
	return record, body, nil
}

// scanTask reads a record. A record that is not readable is an error that names the row, never a
// default.
func scanTask(r row) (perdure.Task, error) {
	var id perdure.TaskID
	var session perdure.SessionID
	var state perdure.TaskState
	var heartbeat int64
	var body []byte
	if err := r.Scan(&id, &session, &state, &heartbeat, &body); err != nil {
		return perdure.Task{}, err
	}
	var t perdure.Task
	if err := decode(body, &t); err != nil {
		return perdure.Task{}, fmt.Errorf("task %s: its stored record is not readable: %w", id, err)
	}
	if !state.Valid() || t.State != state {
		return perdure.Task{}, fmt.Errorf("task %s: its stored state is %q, its record says %q", id, state, t.State)
	}
	if t.ID != id || t.Session != session {
		return perdure.Task{}, fmt.Errorf("task %s of %s: its stored record is of task %s of %s", id, session, t.ID,
			t.Session)
	}
	t.HeartbeatAt = moment(heartbeat)
	return t, nil
}
