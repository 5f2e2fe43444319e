package enginerig

import (
	"context"
	"sync/atomic"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// Mortal is a store that a dead engine cannot reach any more. It can also be told to die by itself, at one of
// its transactions.
type Mortal struct {
	store.Store
	Expired chan struct{} // closed when it died by itself

	dead  atomic.Bool
	count *atomic.Int64
	point Death
	own   atomic.Int64 // transactions of this engine
}

// Death is a place to die: at the nth transaction of an engine, from 1, before it or after it without telling. The
// zero value is nowhere.
type Death struct {
	N     int64
	After bool
}

// NewMortal makes a living store. Its transactions are added to count.
func NewMortal(st store.Store, count *atomic.Int64, point Death) *Mortal {
	return &Mortal{Store: st, Expired: make(chan struct{}), count: count, point: point}
}

// Die ends the store for its engine.
func (m *Mortal) Die() { m.dead.Store(true) }

// InTx refuses the dead, also when they died while they waited for their turn.
func (m *Mortal) InTx(ctx context.Context, fn func(store.Tx) error) error {
	if m.dead.Load() {
		return perdure.Unavailable
	}
	m.count.Add(1)
	if m.own.Add(1) == m.point.N {
		return m.die(ctx, fn)
	}
	return m.Store.InTx(ctx, func(tx store.Tx) error {
		if m.dead.Load() {
			return perdure.Unavailable
		}
		return fn(tx)
	})
}

// die is the end at the chosen point.
func (m *Mortal) die(ctx context.Context, fn func(store.Tx) error) error {
	if m.point.After {
		if err := m.Store.InTx(ctx, fn); err != nil {
			return err
		}
	}
	m.dead.Store(true)
	close(m.Expired)
	return perdure.Unavailable
}
