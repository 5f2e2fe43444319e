// Package faulty is a store that goes wrong where a test says: it wraps another one and fails a named call,
// does it and then times out, or dies before it or after it without telling.
//
// It may import the root, agent and store. The one thing to know: a [Store] is one handle of a store, as one engine
// has it. When it dies, the store inside lives on with all that was committed, and the next engine opens it
// through a handle of its own. The wrappers are generated, so a method without one does not compile.
package faulty

import (
	"context"
	"fmt"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

//go:generate go run ./gen

// What a store answers after the faults of the same names. Both are Unavailable.
var (
	Dead    = fmt.Errorf("%w: dead", perdure.Unavailable)
	Timeout = fmt.Errorf("%w: timed out: %w", perdure.Unavailable, context.DeadlineExceeded)
)

// Act is what goes wrong.
type Act int

// The acts. The zero value lets the call through.
const (
	Pass         Act = iota
	Fail             // nothing is done and the answer is an error
	DoAndTimeout     // it is done, and the answer is Timeout whatever came of it
	Die              // nothing is done, and the handle answers Dead from now on
	DieAfter         // it is done, and the handle answers Dead from now on, this call included
	DieTold          // it is done and answered, and the handle answers Dead from now on
	Panic            // nothing is done, and the call panics with Panicked
	PanicAfter       // it is done, and the call panics with Panicked
)

// Panicked is what a call panics with, after the acts Panic and PanicAfter.
const Panicked = "store/faulty: a panic of the test"

// Fault is what goes wrong with one call.
type Fault struct {
	Act  Act
	Kind perdure.Kind // of the error of Fail; empty: Unavailable
}

// Point is one call of a method of store.Store, store.Tx or store.Reader.
type Point struct {
	Method string // its name; a method of Tx and the one of Reader are the same
	N      int    // the nth call of the method through this handle, from 1
}

// Plan says what goes wrong. The zero value is a store that works.
//
// A fault in a transaction is one of the Tx: the method answers the error, and what becomes of the
// transaction is fn's to decide. But nothing is committed once the handle has died.
type Plan struct {
	// At is asked before each call but Now, which cannot fail. nil lets everything through. It is called by
	// whoever calls the store, several at once, and may block to make a store slow.
	At func(Point) Fault
	// Died is called once, when the handle has died and the call that it died of is over. An engine's test
	// ends the engine's root context in it. nil: nobody wants to know.
	Died func()
}

// Nth is the plan of one fault, at the nth call of a method, from 1.
func Nth(method string, n int, fault Fault) Plan {
	return Plan{At: func(p Point) Fault {
		if p == (Point{Method: method, N: n}) {
			return fault
		}
		return Fault{}
	}}
}

// Store is a handle of another store. New makes it.
type Store struct {
	inner store.Store
	life  *life
}

// New returns a handle of inner that goes wrong as plan says. Closing it closes inner, unless it is dead.
func New(inner store.Store, plan Plan) *Store {
	return &Store{inner: inner, life: &life{plan: plan, counts: map[string]int{}, cancels: map[int]context.CancelCauseFunc{}}}
}

// Count returns how often a method was called before the handle died. Count("InTx") counts transactions,
// those that failed included.
func (s *Store) Count(method string) int {
	s.life.mu.Lock()
	defer s.life.mu.Unlock()
	return s.life.counts[method]
}

// Kill ends the handle as the act Die does, wherever its calls are.
func (s *Store) Kill() { s.life.die() }

// Dead reports whether the handle has died.
func (s *Store) Dead() bool { return s.life.alive() != nil }

// tx is a Tx that goes wrong.
type tx struct {
	inner store.Tx
	life  *life
}

// reader is a Reader that goes wrong.
type reader struct {
	inner store.Reader
	life  *life
}

// life is what all parts of a handle share.
type life struct {
	plan Plan

	mu      sync.Mutex // guards what follows; not held while At, Died or the store inside runs
	counts  map[string]int
	dead    bool
	cancels map[int]context.CancelCauseFunc // of the calls that death ends
	next    int                             // key of cancels
}

// before counts a call and says what goes wrong with it. After an error the call must not be made.
func (l *life) before(method string) (Fault, error) {
	point, err := l.count(method)
	if err != nil || l.plan.At == nil {
		return Fault{}, err
	}
	fault := l.plan.At(point)
	switch fault.Act {
	case Fail:
		kind := fault.Kind
		if kind == "" {
			kind = perdure.Unavailable
		}
		return fault, fmt.Errorf("%s, call %d: %w: a fault of the test", method, point.N, kind)
	case Die:
		l.die()
	case Panic:
		panic(Panicked)
	}
	return fault, l.alive() // another call may have died of its fault while At was asked
}

// after says what goes wrong with a call that was made.
func (l *life) after(fault Fault) error {
	switch fault.Act {
	case DieAfter:
		l.die()
	case DieTold:
		l.die()
		return nil
	case PanicAfter:
		panic(Panicked)
	}
	if err := l.alive(); err != nil {
		return err
	}
	if fault.Act == DoAndTimeout {
		return Timeout
	}
	return nil
}

// count counts a call. Dead: it is not one any more.
func (l *life) count(method string) (Point, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return Point{}, Dead
	}
	l.counts[method]++
	return Point{Method: method, N: l.counts[method]}, nil
}

func (l *life) alive() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return Dead
	}
	return nil
}

// die ends the handle, once, and with it the calls that wait.
func (l *life) die() {
	l.mu.Lock()
	first := !l.dead
	l.dead = true
	for _, cancel := range l.cancels {
		cancel(Dead)
	}
	l.mu.Unlock()
	if first && l.plan.Died != nil {
		l.plan.Died()
	}
}

// mortal returns a ctx that also ends when the handle dies. release lets go of it.
func (l *life) mortal(parent context.Context) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	key := l.next
	l.cancels[key] = cancel
	if l.dead {
		cancel(Dead)
	}
	return ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.cancels, key)
		cancel(nil)
	}
}

// inTx makes what is called in a transaction go wrong too. Nothing is committed once the handle has died.
func (l *life) inTx(fn func(store.Tx) error) func(store.Tx) error {
	return func(inner store.Tx) error {
		if err := fn(&tx{inner: inner, life: l}); err != nil {
			return err // as it is
		}
		return l.alive()
	}
}

// inView makes what is called in a view go wrong too.
func (l *life) inView(fn func(store.Reader) error) func(store.Reader) error {
	return func(inner store.Reader) error { return fn(&reader{inner: inner, life: l}) }
}

// inWatch shows nothing once the handle has died.
func (l *life) inWatch(fn func(store.Frame) error) func(store.Frame) error {
	return func(f store.Frame) error {
		if err := l.alive(); err != nil {
			return err
		}
		return fn(f)
	}
}
