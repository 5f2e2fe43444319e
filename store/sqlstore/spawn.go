package sqlstore

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

const (
	spawnColumns = `session_id, call_id, root_id, depth, task_id, child_id, name, prompt, result_schema, token, state, repairs,
	status, result, created_us, settled_us`

	spawnCount = `SELECT COALESCE(SUM(CASE WHEN state <> 'settled' THEN 1 ELSE 0 END), 0), COUNT(*) FROM spawn`
)

// The statements of spawn handles. The WHERE clause always contains the token and the state that
// may be left, so that a statement that changes no row is the answer.
const (
	spawnInto       = `INSERT INTO spawn (` + spawnColumns + `, position) `
	spawnRow        = spawnInto + `VALUES ($1, $2, $3, $4, $5, '', $6, $7, $8, $9, 'pending', 0, '', $10, $11, 0, `
	spawnPosition   = `(SELECT COALESCE(MAX(position), 0) + 1 FROM spawn)`
	spawnOnce       = `) ON CONFLICT (session_id, call_id) DO NOTHING`
	insertSpawn     = spawnRow + spawnPosition + spawnOnce
	insertSpawnNext = spawnRow + positionNext + spawnOnce

	selectSpawn   = `SELECT ` + spawnColumns + ` FROM spawn WHERE session_id = $1 AND call_id = $2`
	selectSpawnOf = `SELECT ` + spawnColumns + ` FROM spawn WHERE child_id = $1 AND child_id <> ''`
	listSpawns    = `SELECT ` + spawnColumns + ` FROM spawn ORDER BY position`
	listOwnSpawns = `SELECT ` + spawnColumns + ` FROM spawn WHERE root_id = $1 ORDER BY position`
	countOwn      = spawnCount + ` WHERE root_id = $1`
	registerChild = `UPDATE spawn SET state = 'running', child_id = $4
		WHERE session_id = $1 AND call_id = $2 AND token = $3 AND state = 'pending'
		AND NOT EXISTS (SELECT 1 FROM spawn AS other WHERE other.child_id = $4 AND other.child_id <> '')`
	repairSpawn = `UPDATE spawn SET repairs = repairs + 1
		WHERE session_id = $1 AND call_id = $2 AND token = $3 AND state = 'running' RETURNING repairs`
	settleSpawn = `UPDATE spawn SET state = 'settled', status = $4, result = $5, settled_us = $6
		WHERE session_id = $1 AND call_id = $2 AND token = $3 AND state <> 'settled'`
)

func (tx spawnStore) Get(key perdure.CallKey) (store.Spawn, error) {
	s, err := oneOrNone(tx.Tx, scanSpawn, selectSpawn, key.Session, bytesOf(key.Call))
	return wrapped(s, err, "spawn %s", key)
}

func (tx spawnStore) OfChild(child perdure.SessionID) (store.Spawn, error) {
	s, err := oneOrNone(tx.Tx, scanSpawn, selectSpawnOf, child)
	return wrapped(s, err, "spawn of child %s", child)
}

// List lists the handles of a tree in the order of their claims.
func (tx spawnStore) List(root perdure.SessionID) ([]store.Spawn, error) {
	query, args := listOwnSpawns, []any{root}
	if root == "" {
		query, args = listSpawns, nil
	}
	found, err := list(tx.Tx, scanSpawn, tx.locked(query), args...)
	return wrapped(found, err, "list spawns")
}

// Count counts the handles of a tree. An index covers the query.
func (tx spawnStore) Count(root perdure.SessionID) (store.SpawnCount, error) {
	query, args := countOwn, []any{root}
	if root == "" {
		query, args = spawnCount, nil
	}
	err := tx.lock("spawns/"+string(root), false) // there are no rows to lock, so the count itself is locked
	var count store.SpawnCount
	if err == nil {
		count, err = one(tx.Tx, scanSpawnCount, query, args...)
	}
	return wrapped(count, err, "count spawns")
}

// Claim inserts a handle, or locks and judges the existing one.
func (tx spawnStore) Claim(s store.Spawn) (store.SpawnOutcome, store.Spawn, error) {
	if s.Token == "" {
		return "", store.Spawn{}, fmt.Errorf("claim spawn %s: %w: it has no token", s.Key, perdure.Invalid)
	}
	n, err := tx.exec(tx.withPosition(insertSpawn, insertSpawnNext), s.Key.Session, bytesOf(s.Key.Call), s.Root, s.Depth,
		s.Task, bytesOf(s.Name), bytesOf(s.Prompt),
		bytesOf(s.Schema), s.Token, bytesOf(""), micros(tx.Now()))
	var found store.Spawn
	if err == nil {
		found, err = one(tx.Tx, scanSpawn, tx.locked(selectSpawn), s.Key.Session, bytesOf(s.Key.Call))
	}
	if err != nil {
		return "", store.Spawn{}, fmt.Errorf("claim spawn %s: %w", s.Key, err)
	}
	if n == 1 {
		return store.SpawnClaimed, found, nil
	}
	return found.Judge(s.Token), found, nil
}

func (tx spawnStore) RegisterChild(key perdure.CallKey, token perdure.Token, child perdure.SessionID) error {
	if child == "" {
		return fmt.Errorf("register child of spawn %s: %w: there is no child", key, perdure.Invalid)
	}
	n, err := tx.exec(registerChild, key.Session, bytesOf(key.Call), token, child)
	if err == nil && n == 0 {
		err = tx.registeredBefore(key, token, child)
	}
	return wrap(err, "register child %s of spawn %s", child, key)
}

// registeredBefore handles a registration that changed no row: nil, if the same child is stored.
func (tx *Tx) registeredBefore(key perdure.CallKey, token perdure.Token, child perdure.SessionID) error {
	s, err := tx.Spawns().Get(key)
	switch {
	case err != nil && !missing(err):
		return err
	case err == nil && s.Token == token && s.State == store.SpawnRunning && s.Child == child:
		return nil
	case err == nil && s.Token == token && s.State == store.SpawnPending:
		return fmt.Errorf("%w: the child belongs to another handle", perdure.Conflict)
	}
	return fmt.Errorf("%w: it is no longer pending under that token", perdure.Lost)
}

// Repair counts an answer that did not match the schema.
func (tx spawnStore) Repair(key perdure.CallKey, token perdure.Token) (int, error) {
	n, err := one(tx.Tx, number, repairSpawn, key.Session, bytesOf(key.Call), token)
	if missing(err) {
		err = fmt.Errorf("%w: it no longer runs under that token", perdure.Lost)
	}
	if err != nil {
		return 0, fmt.Errorf("repair spawn %s: %w", key, err)
	}
	return int(n), nil
}

func (tx spawnStore) Settle(key perdure.CallKey, token perdure.Token, status perdure.TaskState,
	result json.RawMessage) error {
	if !status.Terminal() {
		return fmt.Errorf("settle spawn %s: %w status %q", key, perdure.Invalid, status)
	}
	n, err := tx.exec(settleSpawn, key.Session, bytesOf(key.Call), token, status, bytesOf(result), micros(tx.Now()))
	if err == nil && n == 0 {
		var s store.Spawn
		s, err = tx.Spawns().Get(key)
		same := s.Token == token && s.Status == status && bytes.Equal(s.Result, result)
		if missing(err) || err == nil && !same {
			err = fmt.Errorf("%w: it is no longer open under that token", perdure.Lost)
		}
	}
	return wrap(err, "settle spawn %s", key)
}

func scanSpawnCount(r row) (c store.SpawnCount, err error) {
	err = r.Scan(&c.Live, &c.Total)
	return c, err
}

// scanSpawn reads a handle. An unknown state is an error that names the row, never a default.
func scanSpawn(r row) (store.Spawn, error) {
	var s store.Spawn
	var call, name, prompt, schema, result []byte
	var created, settled int64
	err := r.Scan(&s.Key.Session, &call, &s.Root, &s.Depth, &s.Task, &s.Child, &name, &prompt, &schema, &s.Token,
		&s.State, &s.Repairs,
		&s.Status, &result, &created, &settled)
	if err != nil {
		return store.Spawn{}, err
	}
	s.Key.Call, s.Name, s.Prompt = perdure.CallID(call), string(name), string(prompt)
	if !s.State.Valid() {
		return store.Spawn{}, fmt.Errorf("spawn %s: its stored state %q is not known", s.Key, s.State)
	}
	if (s.State == store.SpawnSettled) != s.Status.Terminal() {
		return store.Spawn{}, fmt.Errorf("spawn %s: its stored status %q does not match its state %s", s.Key, s.Status,
			s.State)
	}
	if len(schema) > 0 {
		s.Schema = schema
	}
	if len(result) > 0 {
		s.Result = result
	}
	s.CreatedAt, s.SettledAt = moment(created), moment(settled)
	return s, nil
}
