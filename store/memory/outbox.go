package memory

import (
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// Deliveries returns the outbox rows that are not claimed, in the order they were added.
func (v taskStore) Deliveries(session perdure.SessionID) ([]store.Delivery, error) {
	var found []row[store.Delivery]
	for _, r := range v.deliveries.from("") {
		if !r.value.Claimed && (session == "" || session == r.value.Session) {
			found = append(found, r)
		}
	}
	return inOrder(found), nil
}

// AddDelivery adds an outbox row once. Its key ensures that an end is delivered once (DL1).
func (t taskStore) AddDelivery(d store.Delivery) error {
	if !d.State.Terminal() {
		return fmt.Errorf("add delivery of task %s: %w state %q", d.Task, perdure.Invalid, d.State)
	}
	key := fmt.Sprintf("%s %d %s", d.Task, d.Attempt, d.State)
	if !t.deliveries.has(key) {
		d.Claimed, d.Settled = false, micro(d.Settled)
		t.deliveries = t.deliveries.put(key, row[store.Delivery]{t.nextPosition(), d})
	}
	return nil
}

// ClaimDeliveries marks the unclaimed rows of the tasks as delivered.
func (t taskStore) ClaimDeliveries(session perdure.SessionID, tasks []perdure.TaskID) (int, error) {
	claimed := 0
	for key, r := range t.deliveries.from("") { // iterates over the tree as it was before
		if !r.value.Claimed && r.value.Session == session && slices.Contains(tasks, r.value.Task) {
			r.value.Claimed = true
			t.deliveries = t.deliveries.put(key, r)
			claimed++
		}
	}
	return claimed, nil
}
