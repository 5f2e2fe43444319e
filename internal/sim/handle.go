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
)

// Act is a fault at a commit.
type Act string

// The faults. The empty one lets the commit succeed.
const (
	DieBefore     Act = "die_before" // nothing is written, and the process dies
	DieAfter      Act = "die_after"  // the commit succeeds; the process dies once its direct consequences have stopped
	DieUnanswered Act = "die_untold" // the commit succeeds, and the process dies before it gets the answer
	Forget        Act = "forget"     // the commit succeeds, and the answer is a timeout
	Fail          Act = "fail"       // nothing is written, and the answer is Unavailable
	Full          Act = "full"       // nothing is written, because the disk is full
	Broken        Act = "broken"     // nothing is written, and the store can no longer guarantee anything
	Slow          Act = "slow"       // the commit waits, and others overtake it

	// The host stops like a process after SIGSTOP, and continues much later; only with several
	// hosts.
	FreezeBefore Act = "freeze_before" // before the commit, which then is that of an owner of long ago
	FreezeAfter  Act = "freeze_after"  // after the commit
)

// acts are the faults of one host, freezes those that only several have.
var (
	acts    = []Act{DieBefore, DieAfter, DieUnanswered, Forget, Fail, Full, Broken, Slow}
	freezes = []Act{FreezeBefore, FreezeAfter}
)

// handle is the store of one engine: the memory store, behind a faulty store, behind the gate.
type handle struct {
	g      *gate
	l      *process
	store  *faulty.Store
	broken atomic.Bool // the store can no longer guarantee anything
	// began is set when the worker is registered. That commit does not wait at the gate, because
	// the engine holds a lock.
	began atomic.Bool

	mu      sync.Mutex
	armed   faulty.Fault // guarded by mu; for the next transaction
	pretend bool         // guarded by mu; for the next transaction
}

var _ store.Store = (*handle)(nil)

// newHandle puts a faulty store and the gate in front of the memory store.
func newHandle(w *world, l *process) *handle {
	h := &handle{g: w.gate, l: l}
	h.store = faulty.New(&witness{Store: w.memory, w: w, h: h},
		faulty.Plan{Died: l.kill, At: func(p faulty.Point) (f faulty.Fault) {
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

// InTx waits at the gate, and then does what the gate decides.
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

// arm sets the fault of the next transaction.
func (h *handle) arm(p pass) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pretend = p.pretend
	h.armed = map[Act]faulty.Fault{
		DieBefore: {Act: faulty.Die}, DieUnanswered: {Act: faulty.DieAfter}, Forget: {Act: faulty.DoAndTimeout},
		Fail: {Act: faulty.Fail}, Broken: {Act: faulty.Fail, Kind: perdure.Storage},
	}[p.act]
}

// View waits at the gate like a transaction, so that others can commit first.
func (h *handle) View(ctx context.Context, fn func(store.Reader) error) error {
	if _, err := h.g.wait(ctx, &item{life: h.l, sort: look, label: caller(), view: fn}); err != nil {
		return err
	}
	return h.store.View(context.Background(), fn)
}

// Watch is the memory store's: it shows commits, which the gate already controls.
func (h *handle) Watch(ctx context.Context, id perdure.SessionID, after int64, fn func(store.Frame) error) error {
	return h.store.Watch(ctx, id, after, fn)
}

// Publish publishes a live update.
func (h *handle) Publish(f store.Frame) { h.store.Publish(f) }

// Close does nothing, because the memory store survives its handles.
func (h *handle) Close() error { return nil }
