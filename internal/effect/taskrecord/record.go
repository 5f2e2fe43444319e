package taskrecord

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
)

// Event wraps a fact about a task.
func Event(t perdure.Task, fact perdure.Fact) perdure.Event {
	return perdure.Event{Session: t.Session, Actor: "runtime", Turn: t.Turn, Task: t.ID, Attempt: t.Attempt, Fact: fact}
}

// Update updates a task and appends the events that belong to the change, in the caller's
// transaction. It appends first, which locks the session's row before the task's.
//
// When a task ends, the same commit counts its cost, updates its schedule and adds its delivery to
// the outbox.
func (rs *Records) Update(tx store.Tx, t perdure.Task, u perdure.TaskUpdate,
	more ...perdure.Fact) (perdure.TaskChange, error) {
	stored, err := tx.Tasks().Get(t.Session, t.ID)
	if err != nil {
		return perdure.TaskChange{}, err
	}
	planned, err := stored.Update(u, tx.Now())
	if err != nil || planned.Answer != perdure.Updated {
		return planned, err
	}
	var events []perdure.Event
	for _, fact := range more {
		events = append(events, Event(planned.Task, fact))
	}
	if planned.NeedsEvent {
		events = append(events, Event(planned.Task, perdure.TaskUpdated{Task: planned.Task}))
	}
	if len(events) > 0 {
		core.Stamp(events, tx.Now())
		if err := tx.Journal().Append(t.Session, events); err != nil {
			return planned, err
		}
	}
	change, err := tx.Tasks().Update(t.Session, t.ID, u)
	if err == nil && (change.Answer != planned.Answer || change.NeedsEvent != planned.NeedsEvent) {
		// the task was changed between the read and the lock
		err = fmt.Errorf("%w: task %s has changed in the meantime", perdure.Unavailable, t.ID)
	}
	if err != nil || !change.Ended {
		return change, err
	}
	// A call of a host has no turn whose end would drop its secrets. If this commit is undone, the
	// next commit of the end drops them again.
	if change.Task.ReadByCaller() {
		rs.secrets.Vault.Drop(perdure.CallKey{Session: t.Session, Call: change.Task.Call})
	}
	if change.Task.Kind == perdure.KindMonitor { // its runs are delivered and counted themselves
		return change, nil
	}
	if err := rs.countTask(tx, change.Task); err != nil {
		return change, err
	}
	if err := rs.recordRun(tx, change.Task); err != nil {
		return change, err
	}
	if change.Task.ReadByCaller() { // its caller reads the result by the handle
		return change, nil
	}
	return change, tx.Tasks().AddDelivery(store.Delivery{
		Session: t.Session, Task: t.ID, Attempt: change.Task.Attempt, State: change.Task.State, Settled: tx.Now(),
	})
}

// Stored reads the task from the store.
func (rs *Records) Stored(ctx context.Context, t perdure.Task) (stored perdure.Task, err error) {
	err = rs.core.Store.View(ctx, func(r store.Reader) error {
		stored, err = r.Tasks().Get(t.Session, t.ID)
		return err
	})
	return stored, err
}

// Owned reads the task. Lost: another attempt owns it.
func Owned(r store.Reader, t perdure.Task) (perdure.Task, error) {
	stored, err := r.Tasks().Get(t.Session, t.ID)
	if err == nil && stored.Attempt != t.Attempt {
		err = fmt.Errorf("task %s, attempt %d: %w", t.ID, t.Attempt, perdure.Lost)
	}
	return stored, err
}
