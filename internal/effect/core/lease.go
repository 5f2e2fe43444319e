package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// OtherWorkerAlive reports whether id is another worker that is alive, by its lease and the clock
// of the store. If the store is not shared, this worker holds the lock of the data directory, so
// every other worker is dead. A worker whose row cannot be read counts as alive: nothing is taken
// from it.
func (c *Core) OtherWorkerAlive(r store.Reader, id perdure.WorkerID) bool {
	if !c.Shared || id == "" || id == c.Worker {
		return false
	}
	w, err := r.Workers().Get(id)
	if err != nil {
		return !errors.Is(err, perdure.NotFound)
	}
	return w.LeaseUntil.After(r.Now())
}

// OtherWorkerAliveNow is OtherWorkerAlive in a view of its own.
func (c *Core) OtherWorkerAliveNow(ctx context.Context, id perdure.WorkerID) (is bool) {
	if !c.Shared {
		return false
	}
	err := c.Store.View(context.WithoutCancel(ctx), func(r store.Reader) error {
		is = c.OtherWorkerAlive(r, id)
		return nil
	})
	return is || err != nil
}

// WorkerAlive returns a function that reports whether a worker is alive.
func (c *Core) WorkerAlive(r store.Reader) func(perdure.WorkerID) bool {
	return func(id perdure.WorkerID) bool { return id == c.Worker || c.OtherWorkerAlive(r, id) }
}

// LeaseHolds is the fence of the writes of this worker's work, if the store is shared: its lease,
// by the clock of the store. Lost: the lease has expired, and others may take over what this worker
// owned. An expired lease is never valid again.
func (c *Core) LeaseHolds(r store.Reader) error {
	w, err := r.Workers().Get(c.Worker)
	if errors.Is(err, perdure.NotFound) || err == nil && !w.LeaseUntil.After(r.Now()) {
		return fmt.Errorf("worker %s: %w: its lease has expired", c.Worker, perdure.Lost)
	}
	return err
}

// CallFence is the fence of what a call writes beside its result: files, events, other work. Lost:
// the call has ended, or another worker has taken it over.
func CallFence(key perdure.CallKey, token perdure.Token) func(store.Reader) error {
	return func(r store.Reader) error {
		row, err := r.Calls().Get(key)
		if err != nil {
			return err
		}
		if row.State != perdure.CallRunning || row.Token != token {
			return fmt.Errorf("%w: call %s has ended, or another worker has taken it over", perdure.Lost, key)
		}
		return nil
	}
}
