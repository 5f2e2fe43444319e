package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/store/memory"
)

// Act is what goes wrong with a commit.
type Act string

// The acts. The empty one lets the commit be.
const (
	DieBefore Act = "die_before" // nothing is written, and the process is dead
	DieAfter  Act = "die_after"  // it is written and told; what follows from that at once still happens in the dying process, and is not stored
	DieUntold Act = "die_untold" // it is written, and the process is dead before anybody is told
	Forget    Act = "forget"     // it is written, and the answer is a timeout
	Fail      Act = "fail"       // nothing is written, and the answer is Unavailable
	Full      Act = "full"       // nothing is written: there is no space
	Broken    Act = "broken"     // nothing is written, and the store can promise nothing any more, now and later
	Slow      Act = "slow"       // it waits for a while; others overtake it
)

// acts are all of them.
var acts = []Act{DieBefore, DieAfter, DieUntold, Forget, Fail, Full, Broken, Slow}

// handle is the store as one engine has it: memory behind faulty behind the gate.
type handle struct {
	g      *gate
	l      *life
	store  *faulty.Store
	broken atomic.Bool // it can promise nothing any more
	began  atomic.Bool // the worker is registered: the engine holds a lock meanwhile, so that commit does not wait

	mu      sync.Mutex
	armed   faulty.Fault // guarded by mu; of the next transaction
	pretend bool         // guarded by mu; likewise
}

var _ store.Store = (*handle)(nil)

// newHandle puts a faulty store and the gate in front of the memory.
func newHandle(w *world, l *life) *handle {
	h := &handle{g: w.gate, l: l}
	h.store = faulty.New(&witness{Store: w.memory, w: w, h: h}, faulty.Plan{Died: l.kill, At: func(p faulty.Point) (f faulty.Fault) {
		if p.Method != "InTx" {
			return f
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		f, h.armed = h.armed, f
		return f
	}})
	return h
}

// InTx waits at the gate and does then what the gate says.
func (h *handle) InTx(ctx context.Context, fn func(store.Tx) error) error {
	if !h.began.Swap(true) {
		return h.store.InTx(ctx, fn)
	}
	p, err := h.g.wait(ctx, &item{life: h.l, sort: commit, fn: fn})
	if err != nil {
		return err
	}
	if h.broken.Load() {
		return fmt.Errorf("a fault of the simulation: %w", perdure.Storage)
	}
	h.broken.Store(p.act == Broken)
	if p.act == Full {
		return fmt.Errorf("a fault of the simulation: %w", store.Full)
	}
	h.arm(p)
	err = h.store.InTx(context.Background(), fn)
	if p.pretend && errors.Is(err, errPretend) {
		return nil
	}
	if err == nil && p.act == DieAfter {
		h.l.doomed.Store(true)
	}
	return err
}

// arm readies the fault of the transaction that comes now.
func (h *handle) arm(p pass) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pretend = p.pretend
	h.armed = map[Act]faulty.Fault{
		DieBefore: {Act: faulty.Die}, DieUntold: {Act: faulty.DieAfter}, Forget: {Act: faulty.DoAndTimeout},
		Fail: {Act: faulty.Fail}, Broken: {Act: faulty.Fail, Kind: perdure.Storage},
	}[p.act]
}

// errPretend rolls a transaction back that is said to be committed.
var errPretend = errors.New("rolled back by the simulation")

// witness is the memory with somebody who sees what is really committed.
type witness struct {
	*memory.Store
	w *world
	h *handle
}

// InTx notes what was written once it is committed, whatever its caller will be told.
func (s *witness) InTx(ctx context.Context, fn func(store.Tx) error) error {
	s.h.mu.Lock()
	pretend := s.h.pretend
	s.h.pretend = false
	s.h.mu.Unlock()
	var seen *seenTx
	err := s.Store.InTx(ctx, func(tx store.Tx) error {
		seen = &seenTx{Tx: tx, w: s.w}
		if err := fn(seen); err != nil {
			return err
		}
		if pretend {
			return errPretend
		}
		return nil
	})
	if err == nil || pretend && errors.Is(err, errPretend) {
		s.w.committed(seen)
	}
	return err
}

// View waits at the gate like a transaction, so that others may commit before it.
func (h *handle) View(ctx context.Context, fn func(store.Reader) error) error {
	if _, err := h.g.wait(ctx, &item{life: h.l, sort: look, label: caller(), view: fn}); err != nil {
		return err
	}
	return h.store.View(context.Background(), fn)
}

// Watch is the memory's: it shows what is committed, which only the gate lets be.
func (h *handle) Watch(ctx context.Context, id perdure.SessionID, after int64, fn func(store.Frame) error) error {
	return h.store.Watch(ctx, id, after, fn)
}

// Publish shows what is not stored.
func (h *handle) Publish(f store.Frame) { h.store.Publish(f) }

// Close does nothing: the memory outlives its handles.
func (h *handle) Close() error { return nil }
