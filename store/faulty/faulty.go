// Package faulty is a store that fails on purpose. It wraps another store. For a chosen call it
// returns an error, makes the call and reports a timeout, dies before or after the call, or panics.
//
// It may import the root, agent and store. The one thing to know: a [Store] is one handle of a
// store, as one engine has it. When the handle dies, the inner store keeps everything that was
// committed, and the next engine opens it through a handle of its own. The wrappers are generated
// and embed nothing, so a method without a wrapper does not compile.
package faulty

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

//go:generate go run ./gen

// The errors of the faults with these names. Both are Unavailable.
var (
	Dead    = fmt.Errorf("%w: dead", perdure.Unavailable)
	Timeout = fmt.Errorf("%w: timed out: %w", perdure.Unavailable, context.DeadlineExceeded)
)

// Act is the kind of a fault.
type Act int

// The acts. The zero value makes the call without a fault.
const (
	Pass          Act = iota
	Fail              // the call is not made and returns an error
	DoAndTimeout      // the call is made and returns Timeout, without its result
	Die               // the call is not made, and the handle returns Dead from now on
	DieAfter          // the call is made, and the handle returns Dead from now on, including from this call
	DieAfterReply     // the call is made and returns its result, and the handle returns Dead from now on
	Panic             // the call is not made and panics with Panicked
	PanicAfter        // the call is made and panics with Panicked
)

// Panicked is the value of the panic of the acts Panic and PanicAfter.
const Panicked = "store/faulty: a panic of the test"

// Fault is the fault of one call. The zero value is none.
type Fault struct {
	Act  Act
	Kind perdure.Kind // the kind of the error of Fail; empty: Unavailable
}

// Point is one call of a method of store.Store, store.Tx or store.Reader.
type Point struct {
	Method string // its name; a method of Tx and the same one of Reader share their count
	N      int    // the nth call of the method through this handle, from 1
}

// Plan chooses the faults. The zero value has none.
//
// A fault in a transaction is one of the Tx: the method returns the error, and fn decides what
// happens to the transaction. Nothing is committed once the handle has died.
type Plan struct {
	// At returns the fault of a call. It is called before each call except Now, which cannot fail,
	// by the goroutine that makes the call, so it must be safe for concurrent use. It may block to
	// make the store slow. nil: no faults.
	At func(Point) Fault
	// Died is called once, when the handle has died and the call that caused its death is over. The
	// test of an engine ends the engine's root context in it. nil: not called.
	Died func()
}

// Nth returns the plan of one fault, at the nth call of a method, from 1.
func Nth(method string, n int, fault Fault) Plan {
	return Plan{At: func(p Point) Fault {
		if p == (Point{Method: method, N: n}) {
			return fault
		}
		return Fault{}
	}}
}

// Store is a handle of another store. New creates it.
type Store struct {
	inner  store.Store
	handle *handle
}

// New returns a handle of inner with the faults of plan. Closing it closes inner, unless the handle
// is dead.
func New(inner store.Store, plan Plan) *Store {
	return &Store{inner: inner, handle: &handle{plan: plan, counts: map[string]int{},
		cancels: map[int]context.CancelCauseFunc{}}}
}

// Count returns how often a method was called before the handle died. Count("InTx") counts
// transactions, including failed ones.
func (s *Store) Count(method string) int {
	s.handle.mu.Lock()
	defer s.handle.mu.Unlock()
	return s.handle.counts[method]
}

// Kill ends the handle as the act Die does, while calls may be running.
func (s *Store) Kill() { s.handle.die() }

// Dead reports whether the handle has died.
func (s *Store) Dead() bool { return s.handle.alive() != nil }

// handle is the state that all parts of a Store share.
type handle struct {
	plan Plan

	mu      sync.Mutex // guards the fields below; not held while At, Died or the inner store runs
	counts  map[string]int
	dead    bool
	cancels map[int]context.CancelCauseFunc // of the calls that end with the handle
	next    int                             // the next key of cancels
}

// before counts a call and returns its fault. After an error the call must not be made.
func (h *handle) before(method string) (Fault, error) {
	point, err := h.count(method)
	if err != nil || h.plan.At == nil {
		return Fault{}, err
	}
	fault := h.plan.At(point)
	switch fault.Act {
	case Fail:
		kind := fault.Kind
		kind = cmp.Or(kind, perdure.Unavailable)
		return fault, fmt.Errorf("%s, call %d: %w: a fault of the test", method, point.N, kind)
	case Die:
		h.die()
	case Panic:
		panic(Panicked)
	}
	return fault, h.alive() // another call may have killed the handle while At ran
}

// after applies the fault of a call that was made.
func (h *handle) after(fault Fault) error {
	switch fault.Act {
	case DieAfter:
		h.die()
	case DieAfterReply:
		h.die()
		return nil
	case PanicAfter:
		panic(Panicked)
	}
	if err := h.alive(); err != nil {
		return err
	}
	if fault.Act == DoAndTimeout {
		return Timeout
	}
	return nil
}

// count counts a call. Dead: the handle has died, and the call is not counted.
func (h *handle) count(method string) (Point, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return Point{}, Dead
	}
	h.counts[method]++
	return Point{Method: method, N: h.counts[method]}, nil
}

func (h *handle) alive() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return Dead
	}
	return nil
}

// die ends the handle, once, and with it the waiting calls.
func (h *handle) die() {
	h.mu.Lock()
	first := !h.dead
	h.dead = true
	for _, cancel := range h.cancels {
		cancel(Dead)
	}
	h.mu.Unlock()
	if first && h.plan.Died != nil {
		h.plan.Died()
	}
}

// mortal returns a ctx that also ends when the handle dies. The caller calls release when it is
// done.
func (h *handle) mortal(parent context.Context) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	key := h.next
	h.cancels[key] = cancel
	if h.dead {
		cancel(Dead)
	}
	return ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.cancels, key)
		cancel(nil)
	}
}

// inTx wraps the Tx of a transaction. Nothing is committed once the handle has died.
func (h *handle) inTx(fn func(store.Tx) error) func(store.Tx) error {
	return func(inner store.Tx) error {
		if err := fn(newTxWrapper(inner, h)); err != nil {
			return err // unchanged
		}
		return h.alive()
	}
}

// inView wraps the Reader of a view.
func (h *handle) inView(fn func(store.Reader) error) func(store.Reader) error {
	return func(inner store.Reader) error { return fn(newReaderWrapper(inner, h)) }
}

// inWatch delivers nothing once the handle has died.
func (h *handle) inWatch(fn func(store.Frame) error) func(store.Frame) error {
	return func(f store.Frame) error {
		if err := h.alive(); err != nil {
			return err
		}
		return fn(f)
	}
}
