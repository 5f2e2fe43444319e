package sim

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
)

// sort is the kind of an item at the gate.
type sort int

const (
	act    sort = iota // a step of a tool or of the model
	commit             // a transaction
	look               // a view
)

// item is one goroutine that waits at the gate.
type item struct {
	life     *process
	sort     sort
	label    string // what it is about to do, without random parts; empty: not probed yet
	writes   bool   // it writes something significant
	mayDelay bool   // it may be delayed, because no timer waits for the same goroutine
	rank     uint64 // the lowest passes first
	until    time.Time
	fn       func(store.Tx) error
	view     func(store.Reader) error
	turn     chan pass // capacity 1: the gate never waits for the goroutine that it lets pass
}

// pass is the fate of an item that passes.
type pass struct {
	act     Act
	pretend bool // roll the transaction back and report it as committed: a sabotage
}

// gate is where every observable action waits. It survives engines. It is safe for concurrent use.
type gate struct {
	mu      sync.Mutex
	waiting []*item       // guarded by mu
	news    chan struct{} // capacity 1: something has arrived
}

func newGate() *gate { return &gate{news: make(chan struct{}, 1)} }

// wait returns when the item may pass, or when ctx ends. faulty.Dead: its process has died.
func (g *gate) wait(ctx context.Context, it *item) (pass, error) {
	it.turn = make(chan pass, 1)
	g.mu.Lock()
	if it.life.isDead() {
		g.mu.Unlock()
		return pass{}, faulty.Dead
	}
	g.waiting = append(g.waiting, it)
	g.mu.Unlock()
	g.ring()
	select {
	case p, ok := <-it.turn:
		if !ok {
			return pass{}, faulty.Dead
		}
		return p, nil
	case <-ctx.Done():
		if !g.remove(it) { // it was just let through
			if p, ok := <-it.turn; ok {
				return p, nil
			}
			return pass{}, faulty.Dead
		}
		return pass{}, ctx.Err()
	}
}

// ring signals that something has arrived.
func (g *gate) ring() {
	select {
	case g.news <- struct{}{}:
	default:
	}
}

// remove removes an item, and reports whether it was waiting.
func (g *gate) remove(it *item) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, it)
	if i < 0 {
		return false
	}
	g.waiting = slices.Delete(g.waiting, i, i+1)
	return true
}

// list returns the waiting items.
func (g *gate) list() []*item {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.waiting)
}

// dropProcess ends the waiting of all items of a dead process.
func (g *gate) dropProcess(l *process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(it *item) bool {
		if it.life == l {
			close(it.turn)
		}
		return it.life == l
	})
}

// step waits before the next step of a tool or model, and reports whether its process is alive. It
// has no context, because the steps of a tool that is being stopped count too.
func (g *gate) step(l *process, label string) bool {
	_, err := g.wait(context.Background(), &item{life: l, sort: act, label: label})
	return err == nil
}
