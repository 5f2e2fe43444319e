package sqlstore

import (
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

const deliveryColumns = `session_id, task_id, attempt, state, settled_us, claimed`

// The statements of the outbox. Its key ensures that each end is delivered once.
const (
	deliveryInto       = `INSERT INTO delivery (` + deliveryColumns + `, position) `
	deliveryRow        = deliveryInto + `VALUES ($1, $2, $3, $4, $5, FALSE, `
	deliveryPosition   = `(SELECT COALESCE(MAX(position), 0) + 1 FROM delivery)`
	deliveryOnce       = `) ON CONFLICT (task_id, attempt, state) DO NOTHING`
	insertDelivery     = deliveryRow + deliveryPosition + deliveryOnce
	insertDeliveryNext = deliveryRow + positionNext + deliveryOnce

	listPending = `SELECT ` + deliveryColumns +
		` FROM delivery WHERE NOT claimed AND session_id = $1 ORDER BY position`
	listAllPending  = `SELECT ` + deliveryColumns + ` FROM delivery WHERE NOT claimed ORDER BY position`
	claimDeliveries = `UPDATE delivery SET claimed = TRUE WHERE NOT claimed AND session_id = $1 AND task_id = $2`
)

// Deliveries returns the unclaimed outbox rows, in the order they were added.
func (tx taskStore) Deliveries(session perdure.SessionID) ([]store.Delivery, error) {
	query, args := listPending, []any{session}
	if session == "" {
		query, args = listAllPending, nil
	}
	err := tx.hold(session)
	var found []store.Delivery
	if err == nil {
		found, err = list(tx.Tx, scanDelivery, tx.locked(query), args...)
	}
	return wrapped(found, err, "list deliveries")
}

// AddDelivery adds an outbox row once.
func (tx taskStore) AddDelivery(d store.Delivery) error {
	if !d.State.Terminal() {
		return fmt.Errorf("add delivery of task %s: %w state %q", d.Task, perdure.Invalid, d.State)
	}
	err := tx.hold(d.Session)
	if err == nil {
		_, err = tx.exec(tx.withPosition(insertDelivery, insertDeliveryNext), d.Session, d.Task, d.Attempt, d.State,
			micros(d.Settled))
	}
	return wrap(err, "add delivery of task %s", d.Task)
}

// ClaimDeliveries marks the unclaimed rows of the tasks as delivered.
func (tx taskStore) ClaimDeliveries(session perdure.SessionID, tasks []perdure.TaskID) (int, error) {
	if err := tx.hold(session); err != nil {
		return 0, fmt.Errorf("claim deliveries: %w", err)
	}
	claimed := 0
	for _, id := range tasks {
		n, err := tx.exec(claimDeliveries, session, id)
		if err != nil {
			return 0, fmt.Errorf("claim delivery of task %s: %w", id, err)
		}
		claimed += int(n)
	}
	return claimed, nil
}

func scanDelivery(r row) (store.Delivery, error) {
	var d store.Delivery
	var settled int64
	if err := r.Scan(&d.Session, &d.Task, &d.Attempt, &d.State, &settled, &d.Claimed); err != nil {
		return store.Delivery{}, err
	}
	if !d.State.Terminal() {
		return store.Delivery{}, fmt.Errorf("delivery of task %s: its stored state %q is not known", d.Task, d.State)
	}
	d.Settled = moment(settled)
	return d, nil
}
