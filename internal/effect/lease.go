package effect

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// Elsewhere is the answer of Take for a session that another worker drives, which lives. It is of kind Lost.
var Elsewhere = fmt.Errorf("%w: another worker has it", perdure.Lost)

// elsewhere reports whether a worker that is not this one lives, by its lease and the store's clock (LG3). Under the
// data-directory lock every other worker is dead (LG20). What cannot be read is not taken from anybody.
func (e *Effects) elsewhere(r store.Reader, id perdure.WorkerID) bool {
	if !e.cfg.Shared || id == "" || id == e.cfg.Worker {
		return false
	}
	w, err := r.Worker(id)
	if err != nil {
		return !errors.Is(err, perdure.NotFound)
	}
	return w.LeaseUntil.After(r.Now())
}

// elsewhereNow is elsewhere outside a transaction.
func (e *Effects) elsewhereNow(ctx context.Context, id perdure.WorkerID) (is bool) {
	if !e.cfg.Shared {
		return false
	}
	err := e.cfg.Store.View(context.WithoutCancel(ctx), func(r store.Reader) error {
		is = e.elsewhere(r, id)
		return nil
	})
	return is || err != nil
}

// live returns the question whether a worker still lives.
func (e *Effects) live(r store.Reader) func(perdure.WorkerID) bool {
	return func(id perdure.WorkerID) bool { return id == e.cfg.Worker || e.elsewhere(r, id) }
}

// LeaseHolds is the fence of all that this worker's work writes where the store is shared: its lease, by the store's clock.
// Lost: it has passed, and others may take what this worker has. Nothing brings it back: a worker dies once.
func (e *Effects) LeaseHolds(r store.Reader) error {
	w, err := r.Worker(e.cfg.Worker)
	if errors.Is(err, perdure.NotFound) || err == nil && !w.LeaseUntil.After(r.Now()) {
		return fmt.Errorf("worker %s: %w: its lease has passed", e.cfg.Worker, perdure.Lost)
	}
	return err
}

// fenced is a store whose transactions ask a fence first, in the same commit. An error of the fence is the transaction's.
type fenced struct {
	store.Store
	fence func(store.Reader) error
}

// InTx runs fn if the fence lets it.
func (f fenced) InTx(ctx context.Context, fn func(store.Tx) error) error {
	return f.Store.InTx(ctx, func(tx store.Tx) error {
		if err := f.fence(tx); err != nil {
			return err
		}
		return fn(tx)
	})
}

// Running lists the tasks whose work runs here and is committed. It is what to ask before a beat: a task that began after
// it is not lost because the beat does not know it.
func (e *Effects) Running() (ids []perdure.TaskID) {
	e.tasks.Range(func(id, _ any) bool {
		ids = append(ids, id.(perdure.TaskID))
		return true
	})
	e.calls.Range(func(_, c any) bool {
		if task, _ := c.(*callRun).asTask(); task.ID != "" {
			ids = append(ids, task.ID)
		}
		return true
	})
	return ids
}

// Beat ends what the store says is canceled, and of what ran here before the beat what is another's by now (LG19, TK8).
func (e *Effects) Beat(ran []perdure.TaskID, beat store.Beat) {
	for _, id := range beat.Canceled {
		e.cancelWork(id, perdure.CauseCanceled)
	}
	if !e.cfg.Shared {
		return
	}
	ours := map[perdure.TaskID]bool{}
	for _, task := range beat.Tasks {
		ours[task.ID] = true
	}
	for _, id := range ran {
		if !ours[id] {
			e.cancelWork(id, perdure.CauseSuperseded)
		}
	}
}

// Abandon ends all work of this worker as another's: its lease has passed, so nothing more of it is written (TK8).
func (e *Effects) Abandon() {
	e.tasks.Range(func(id, _ any) bool {
		e.cfg.Runner.Cancel(string(id.(perdure.TaskID)), perdure.CauseSuperseded)
		return true
	})
	e.calls.Range(func(key, _ any) bool {
		e.cfg.Runner.Cancel(key.(perdure.CallKey).String(), perdure.CauseSuperseded)
		return true
	})
}
