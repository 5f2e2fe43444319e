package enginerig

import (
	"context"
	"sync/atomic"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// KillableStore is a store that its engine can no longer reach after Die. It can also die by
// itself, at one of its transactions.
type KillableStore struct {
	store.Store
	Died chan struct{} // closed after it has died by itself

	dead  atomic.Bool
	count *atomic.Int64
	point KillPoint
	own   atomic.Int64 // transactions of this store's engine
}

// KillPoint selects a transaction at which a [KillableStore] dies: the Nth of its engine, counted
// from 1; before it, or, with After, after its commit and without an answer. The zero value selects
// none.
type KillPoint struct {
	N     int64
	After bool
}

// NewKillableStore creates a Mortal. It adds its transactions to count.
func NewKillableStore(st store.Store, count *atomic.Int64, point KillPoint) *KillableStore {
	return &KillableStore{Store: st, Died: make(chan struct{}), count: count, point: point}
}

// Kill cuts the store off from its engine.
func (m *KillableStore) Kill() { m.dead.Store(true) }

// InTx returns Unavailable if the store is dead, also if it died while the transaction waited.
func (m *KillableStore) InTx(ctx context.Context, fn func(store.Tx) error) error {
	if m.dead.Load() {
		return perdure.Unavailable
	}
	m.count.Add(1)
	if m.own.Add(1) == m.point.N {
		return m.killAtPoint(ctx, fn)
	}
	return m.Store.InTx(ctx, func(tx store.Tx) error {
		if m.dead.Load() {
			return perdure.Unavailable
		}
		return fn(tx)
	})
}

// killAtPoint carries out the chosen transaction if Death.After says so, and dies.
func (m *KillableStore) killAtPoint(ctx context.Context, fn func(store.Tx) error) error {
	if m.point.After {
		if err := m.Store.InTx(ctx, fn); err != nil {
			return err
		}
	}
	m.dead.Store(true)
	close(m.Died)
	return perdure.Unavailable
}
