package sqlstore

import (
	"fmt"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

const (
	approvalColumns = `id, session_id, call_id, state, record`

	// approvalFilter contains every condition of store.ApprovalFilter. Conditions in front of it
	// only let the database use an index.
	approvalFilter = `($1 = '' OR session_id = $1) AND ($2 = '' OR state = $2) AND ($3 = 0 OR call_id = $4) ORDER BY position LIMIT $5`
)

// The statements of approvals. The condition of listOpenApprovals is literally that of a partial
// index.
const (
	approvalRow = `INSERT INTO approval (` + approvalColumns +
		`, task_id, position) VALUES ($1, $2, $3, $4, $5, $6, `
	approvalPosition = `(SELECT COALESCE(MAX(position), 0) + 1 FROM approval)`
	approvalAgain    = `) ON CONFLICT (id) DO UPDATE SET state = excluded.state, record = excluded.record, task_id = excluded.task_id
		WHERE approval.session_id = excluded.session_id AND approval.call_id = excluded.call_id`
	putApproval     = approvalRow + approvalPosition + approvalAgain
	putApprovalNext = approvalRow + positionNext + approvalAgain

	selectApproval    = `SELECT ` + approvalColumns + ` FROM approval WHERE id = $1`
	listApprovals     = `SELECT ` + approvalColumns + ` FROM approval WHERE ` + approvalFilter
	listOpenApprovals = `SELECT ` + approvalColumns + ` FROM approval WHERE state = 'open' AND ` + approvalFilter
	listOwnApprovals  = `SELECT ` + approvalColumns + ` FROM approval WHERE session_id = $1 AND ` + approvalFilter
	listCallApprovals = `SELECT ` + approvalColumns + ` FROM approval WHERE session_id = $1 AND call_id = $4 AND ` +
		approvalFilter
)

func (tx approvalStore) Get(id perdure.ApprovalID) (perdure.Approval, error) {
	err := tx.holdApproval(id)
	var a perdure.Approval
	if err == nil {
		a, err = one(tx.Tx, scanApproval, tx.locked(selectApproval), id)
	}
	return wrapped(a, err, "approval %s", id)
}

// holdApproval locks the session of an approval. NotFound: there is no such approval.
func (tx *Tx) holdApproval(id perdure.ApprovalID) error {
	if tx.alone() {
		return nil
	}
	session, err := one(tx, name[perdure.SessionID], sessionOfAsk, id)
	if err != nil {
		return err
	}
	return tx.hold(session)
}

// List lists records in the order in which they were requested.
func (tx approvalStore) List(filter store.ApprovalFilter) ([]perdure.Approval, error) {
	if filter.State != "" && !filter.State.Valid() {
		return nil, fmt.Errorf("list approvals: %w state %q", perdure.Invalid, filter.State)
	}
	query := listApprovals
	switch {
	case filter.Session != "" && filter.Call != "":
		query = listCallApprovals
	case filter.State == perdure.ApprovalOpen:
		query = listOpenApprovals
	case filter.Session != "":
		query = listOwnApprovals
	}
	err := tx.hold(filter.Session)
	var found []perdure.Approval
	if err == nil {
		found, err = list(tx.Tx, scanApproval, tx.locked(query),
			filter.Session, filter.State, len(filter.Call), bytesOf(filter.Call), orAll(filter.Limit))
	}
	return wrapped(found, err, "list approvals")
}

// Put adds a record, or overwrites the one with its id.
func (tx approvalStore) Put(a perdure.Approval) error {
	if !a.State.Valid() {
		return fmt.Errorf("put approval %s: %w state %q", a.ID, perdure.Invalid, a.State)
	}
	a.RequestedAt, a.ExpiresAt, a.DecidedAt = micro(a.RequestedAt), micro(a.ExpiresAt), micro(a.DecidedAt)
	body, err := encode(a)
	if err != nil {
		return fmt.Errorf("put approval %s: %w record: %w", a.ID, perdure.Invalid, err)
	}
	if err := tx.hold(a.Session); err != nil {
		return fmt.Errorf("put approval %s: %w", a.ID, err)
	}
	n, err := tx.exec(tx.withPosition(putApproval, putApprovalNext), a.ID, a.Session, bytesOf(a.Call), a.State, body, a.Task)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: it belongs to another call or session", perdure.Conflict)
	}
	return wrap(err, "put approval %s", a.ID)
}

// scanApproval reads a record. A record that is not readable, or does not match its row, is an
// error that names the row: an approval of one call must never allow another.
func scanApproval(r row) (perdure.Approval, error) {
	var id perdure.ApprovalID
	var session perdure.SessionID
	var state perdure.ApprovalState
	var call, body []byte
	if err := r.Scan(&id, &session, &call, &state, &body); err != nil {
		return perdure.Approval{}, err
	}
	var a perdure.Approval
	if err := decode(body, &a); err != nil {
		return perdure.Approval{}, fmt.Errorf("approval %s: its stored record is not readable: %w", id, err)
	}
	if !state.Valid() || a.State != state {
		return perdure.Approval{}, fmt.Errorf("approval %s: its stored state is %q, its record says %q", id, state,
			a.State)
	}
	if a.ID != id || a.Session != session || utf8.Valid(call) && string(a.Call) != string(call) {
		return perdure.Approval{}, fmt.Errorf("approval %s of call %s of %s: its stored record is %s of call %s of %s",
			id, call, session, a.ID, a.Call, a.Session)
	}
	a.Call = perdure.CallID(call) // JSON does not preserve bytes that are not UTF-8
	return a, nil
}
