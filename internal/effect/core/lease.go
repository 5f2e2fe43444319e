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

// Fenced is a store whose transactions check a fence first, in the same commit. If the fence
// returns an error, the transaction fails with it.
type Fenced struct {
	store.Store
	Fence func(store.Reader) error
}

// InTx runs fn if the fence allows it.
func (f Fenced) InTx(ctx context.Context, fn func(store.Tx) error) error {
	return f.Store.InTx(ctx, func(tx store.Tx) error {
		if err := f.Fence(tx.Reader()); err != nil {
			return err
		}
		return fn(tx)
	})
}
