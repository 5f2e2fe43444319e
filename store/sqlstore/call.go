package sqlstore

import (
	"bytes"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

const callColumns = `session_id, call_id, turn_id, task_id, attempt, tool, args, fingerprint, class, state, token, worker_id,
	home_id, epoch, executions, result, resolved_by, claimed_us, settled_us`

// The statements of the effect ledger. The WHERE clause always contains the state that may be left,
// so that a statement that changes no row is the answer.
const (
	callRow = `INSERT INTO call (` + callColumns + `, position)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'running', $10, $11, $12, $13, 1, NULL, $14, $15, 0, `
	callPosition   = `(SELECT COALESCE(MAX(position), 0) + 1 FROM call)`
	callOnce       = `) ON CONFLICT (session_id, call_id) DO NOTHING`
	insertCall     = callRow + callPosition + callOnce
	insertCallNext = callRow + positionNext + callOnce

	selectCall  = `SELECT ` + callColumns + ` FROM call WHERE session_id = $1 AND call_id = $2`
	listCalls   = `SELECT ` + callColumns + ` FROM call WHERE ($1 = '' OR state = $1) ORDER BY position`
	listRunning = `SELECT ` + callColumns +
		` FROM call WHERE state = 'running' AND ($1 = '' OR session_id = $1) ORDER BY position`
	listOwn = `SELECT ` + callColumns +
		` FROM call WHERE session_id = $1 AND ($2 = '' OR state = $2) ORDER BY position`
	listInDoubt = `SELECT ` + callColumns + ` FROM call
		WHERE session_id = $1 AND (state <> 'settled' OR length(resolved_by) > 0) ORDER BY position`
	takeCall = `UPDATE call SET token = $4, worker_id = $5, epoch = $6, attempt = $7, task_id = $8, executions = $9, home_id = $10
		WHERE session_id = $1 AND call_id = $2 AND token = $3 AND state = 'running'`
	bindCall = `UPDATE call SET task_id = $4, attempt = $5
		WHERE session_id = $1 AND call_id = $2 AND token = $3 AND state = 'running'`
	settleCall = `UPDATE call SET state = $4, result = $5, settled_us = $6
		WHERE session_id = $1 AND call_id = $2 AND token = $3 AND state = 'running'`
	selectResult = `SELECT result FROM call WHERE session_id = $1 AND call_id = $2 AND token = $3 AND state = $4`
	resolveCall  = `UPDATE call SET state = 'settled', result = $3, settled_us = $4, resolved_by = $5
		WHERE session_id = $1 AND call_id = $2 AND state = 'unknown'`
	rerunCall = `UPDATE call SET state = 'running', result = NULL, settled_us = 0, token = $3, worker_id = $4, executions = $5,
		resolved_by = $6, home_id = $7 WHERE session_id = $1 AND call_id = $2 AND state = 'unknown'`
)

func (tx callStore) Get(key perdure.CallKey) (perdure.Call, error) {
	return tx.callBy(key, tx.locked(selectCall))
}

// List lists rows in the order of their first claim.
func (tx callStore) List(filter store.CallFilter) ([]perdure.Call, error) {
	query, args := listCalls, []any{filter.State}
	switch {
	case filter.InDoubt && (filter.Session == "" || filter.State != ""):
		return nil, fmt.Errorf("list calls: %w filter: InDoubt goes with Session, and without State", perdure.Invalid)
	case filter.InDoubt:
		query, args = listInDoubt, []any{filter.Session}
	case filter.State == perdure.CallRunning:
		query, args = listRunning, []any{filter.Session}
	case filter.Session != "":
		query, args = listOwn, []any{filter.Session, filter.State}
	}
	err := tx.hold(filter.Session)
	var found []perdure.Call
	if err == nil {
		found, err = list(tx.Tx, scanCall, tx.locked(query), args...)
	}
	return wrapped(found, err, "list calls")
}

// Claim inserts a row, or locks and judges the existing one.
func (tx callStore) Claim(call perdure.Call,
	ownerLive func(perdure.WorkerID) bool) (perdure.ClaimOutcome, perdure.Call, error) {
	if call.Token == "" {
		return "", perdure.Call{}, fmt.Errorf("claim call %s: %w: there is no token", call.Key, perdure.Invalid)
	}
	call.State, call.Executions, call.ClaimedAt = perdure.CallRunning, 1, tx.Now()
	call.Result, call.SettledAt = nil, moment(0)
	if len(call.Args) == 0 {
		call.Args = nil // as it will be read back
	}
	if err := tx.hold(call.Key.Session); err != nil {
		return "", perdure.Call{}, fmt.Errorf("claim call %s: %w", call.Key, err)
	}
	n, err := tx.exec(tx.withPosition(insertCall, insertCallNext), call.Key.Session, bytesOf(call.Key.Call), call.Turn,
		call.Task, call.Attempt, bytesOf(call.Tool),
		bytesOf(call.Args), call.Fingerprint, call.Class, call.Token, call.Worker, call.Home, call.Epoch, bytesOf(call.ResolvedBy),
		micros(call.ClaimedAt))
	if err != nil {
		return "", perdure.Call{}, fmt.Errorf("claim call %s: %w", call.Key, err)
	}
	if n == 1 {
		return perdure.Claimed, call, nil
	}
	found, err := tx.callBy(call.Key, tx.locked(selectCall))
	if err != nil {
		return "", perdure.Call{}, fmt.Errorf("claim: %w", err)
	}
	live := found.State == perdure.CallRunning && ownerLive(found.Worker)
	return perdure.DecideClaim(&found, call, live), found, nil
}

func (tx callStore) TakeOver(old perdure.Call, next perdure.Call) error {
	if next.Token == "" {
		return fmt.Errorf("take over call %s: %w: there is no token", old.Key, perdure.Invalid)
	}
	if err := tx.hold(old.Key.Session); err != nil {
		return fmt.Errorf("take over call %s: %w", old.Key, err)
	}
	n, err := tx.exec(takeCall, old.Key.Session, bytesOf(old.Key.Call), old.Token,
		next.Token, next.Worker, next.Epoch, next.Attempt, next.Task, next.Executions, next.Home)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: it no longer runs under that token", perdure.Lost)
	}
	return wrap(err, "take over call %s", old.Key)
}

func (tx callStore) Bind(key perdure.CallKey, token perdure.Token, task perdure.TaskID, attempt int) error {
	if err := tx.hold(key.Session); err != nil {
		return fmt.Errorf("bind call %s to task %s: %w", key, task, err)
	}
	n, err := tx.exec(bindCall, key.Session, bytesOf(key.Call), token, task, attempt)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: it no longer runs under that token", perdure.Lost)
	}
	return wrap(err, "bind call %s to task %s", key, task)
}

func (tx callStore) Settle(key perdure.CallKey, token perdure.Token, state perdure.CallState,
	result perdure.ToolResult) error {
	if state != perdure.CallSettled && state != perdure.CallUnknown {
		return fmt.Errorf("settle call %s: %w state %q", key, perdure.Invalid, state)
	}
	body, err := encode(result)
	if err != nil {
		return fmt.Errorf("settle call %s: %w result: %w", key, perdure.Invalid, err)
	}
	if err := tx.hold(key.Session); err != nil {
		return fmt.Errorf("settle call %s: %w", key, err)
	}
	n, err := tx.exec(settleCall, key.Session, bytesOf(key.Call), token, state, body, micros(tx.Now()))
	if err == nil && n == 0 {
		err = tx.settledBefore(key, token, state, body)
	}
	return wrap(err, "settle call %s", key)
}

// settledBefore handles a settlement that changed no row: nil, if the same outcome is stored.
func (tx *Tx) settledBefore(key perdure.CallKey, token perdure.Token, state perdure.CallState, body []byte) error {
	stored, err := one(tx, content, selectResult, key.Session, bytesOf(key.Call), token, state)
	switch {
	case err == nil && bytes.Equal(stored, body):
		return nil
	case err != nil && !missing(err):
		return err
	}
	if _, err := tx.Calls().Get(key); err != nil {
		return err
	}
	return fmt.Errorf("%w: the token does not own a running row", perdure.Lost)
}

func (tx callStore) Resolve(next perdure.Call, by string) error {
	err := tx.hold(next.Key.Session)
	var n int64
	if err == nil {
		n, err = tx.resolve(next, by)
	}
	if err == nil && n == 0 {
		if _, err = tx.Calls().Get(next.Key); err == nil {
			err = fmt.Errorf("%w: it is not unknown", perdure.Conflict)
		}
	}
	return wrap(err, "resolve call %s", next.Key)
}

func (tx *Tx) resolve(next perdure.Call, by string) (int64, error) {
	session, call := next.Key.Session, bytesOf(next.Key.Call)
	switch {
	case next.State == perdure.CallRunning && next.Token == "":
		return 0, fmt.Errorf("%w: there is no token", perdure.Invalid)
	case next.State == perdure.CallRunning:
		return tx.exec(rerunCall, session, call, next.Token, next.Worker, next.Executions, bytesOf(by), next.Home)
	case next.State != perdure.CallSettled || next.Result == nil:
		return 0, fmt.Errorf("%w: state %q, with a result: %t", perdure.Invalid, next.State, next.Result != nil)
	}
	body, err := encode(*next.Result)
	if err != nil {
		return 0, fmt.Errorf("%w result: %w", perdure.Invalid, err)
	}
	return tx.exec(resolveCall, session, call, body, micros(tx.Now()), bytesOf(by))
}

func (tx *Tx) callBy(key perdure.CallKey, query string) (perdure.Call, error) {
	err := tx.hold(key.Session)
	var found perdure.Call
	if err == nil {
		found, err = one(tx, scanCall, query, key.Session, bytesOf(key.Call))
	}
	return wrapped(found, err, "call %s", key)
}

func scanCall(r row) (perdure.Call, error) {
	var c perdure.Call
	var id, tool, args, result, by []byte
	var claimed, settled int64
	err := r.Scan(&c.Key.Session, &id, &c.Turn, &c.Task, &c.Attempt, &tool, &args, &c.Fingerprint, &c.Class, &c.State,
		&c.Token,
		&c.Worker, &c.Home, &c.Epoch, &c.Executions, &result, &by, &claimed, &settled)
	if err != nil {
		return perdure.Call{}, err
	}
	c.Key.Call, c.Tool, c.ResolvedBy = perdure.CallID(id), string(tool), string(by)
	if len(args) > 0 {
		c.Args = args
	}
	if c.State != perdure.CallRunning && c.State != perdure.CallSettled && c.State != perdure.CallUnknown {
		return perdure.Call{}, fmt.Errorf("call %s: its stored state %q is not known", c.Key, c.State)
	}
	if len(result) > 0 {
		c.Result = new(perdure.ToolResult)
		if err := decode(result, c.Result); err != nil {
			return perdure.Call{}, fmt.Errorf("call %s: its stored result is not readable: %w", c.Key, err)
		}
	}
	c.ClaimedAt, c.SettledAt = moment(claimed), moment(settled)
	return c, nil
}
