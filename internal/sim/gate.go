package sim

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
)

// sort is what waits at the gate.
type sort int

const (
	act    sort = iota // a step of a tool or of the model
	commit             // a transaction
	look               // a view
)

// item is one goroutine that waits at the gate.
type item struct {
	life  *life
	sort  sort
	label string // what it is about to do, without what is random; empty: nobody has looked yet
	moves bool   // it writes something that can be missed
	holds bool   // it may be held back: nobody's timer waits for the same goroutine
	rank  uint64 // the lowest goes first
	until time.Time
	fn    func(store.Tx) error
	view  func(store.Reader) error
	turn  chan pass // capacity 1: the gate never waits for who is let through
}

// pass is what becomes of an item that is let through.
type pass struct {
	act     Act
	pretend bool // it is rolled back and said to be committed: a sabotage
}

// gate is where everything waits that can be told apart from outside. It outlives engines. It is safe for concurrent use.
type gate struct {
	mu      sync.Mutex
	waiting []*item       // guarded by mu
	news    chan struct{} // capacity 1: something came
}

func newGate() *gate { return &gate{news: make(chan struct{}, 1)} }

// wait returns when the item is let through, or with ctx. faulty.Dead: its process died.
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
		if !g.remove(it) { // it was let through in this moment
			if p, ok := <-it.turn; ok {
				return p, nil
			}
			return pass{}, faulty.Dead
		}
		return pass{}, ctx.Err()
	}
}

// ring says that there is something to look at.
func (g *gate) ring() {
	select {
	case g.news <- struct{}{}:
	default:
	}
}

// remove takes an item out, and reports whether it was there.
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

// list returns what waits.
func (g *gate) list() []*item {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.waiting)
}

// turnAway ends the waiting of a life that is over.
func (g *gate) turnAway(l *life) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(it *item) bool {
		if it.life == l {
			close(it.turn)
		}
		return it.life == l
	})
}

// step lets a tool or a model take its next step, and reports whether its process lives. It does not end with a context:
// what a tool does in its end is a step too.
func (g *gate) step(l *life, label string) bool {
	_, err := g.wait(context.Background(), &item{life: l, sort: act, label: label})
	return err == nil
}
