package local_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
)

// world is the outside of engines over one store.
type world struct {
	setup enginetest.Setup
	model *scripted.Model
	open  func(t *testing.T) store.Store
	close func(store.Store)

	point   death   // of the next engine
	mortal  *mortal // of the running engine
	stop    context.CancelFunc
	ended   chan error // of the running engine; capacity 1
	commits atomic.Int64

	mu       sync.Mutex
	effects  map[string][]string      // guarded by mu; keys by tool
	entered  map[string]int           // guarded by mu
	released map[string]chan struct{} // guarded by mu
	news     chan struct{}            // guarded by mu; closed and replaced when something was entered
}

func newWorld(t *testing.T, s enginetest.Setup, open func(*testing.T) store.Store, closeStore func(store.Store)) *world {
	t.Helper()
	m, err := scripted.Parse("law", []byte(s.Script))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		setup: s, model: m, open: open, close: closeStore,
		effects: map[string][]string{}, entered: map[string]int{}, released: map[string]chan struct{}{}, news: make(chan struct{}),
	}
	t.Cleanup(func() {
		w.mu.Lock()
		for name := range w.entered {
			w.open1(name)
		}
		w.mu.Unlock()
		w.Kill(t)
	})
	return w
}

// Start makes an engine over the store and runs it.
func (w *world) Start(t *testing.T) engine.Engine {
	t.Helper()
	w.shut()
	w.mortal = &mortal{Store: w.open(t), count: &w.commits, point: w.point, expired: make(chan struct{})}
	w.point = death{}
	overflow := local.OverflowQueue
	if w.setup.Reject {
		overflow = local.OverflowReject
	}
	eng, err := local.Open(t.Context(), local.Config{
		Store: w.mortal, Model: w.model, Tools: tool.NewRegistry(append(w.tools(), background.Tools(background.Config{})...)...),
		PerSession: w.setup.PerSession, Overflow: overflow, Grace: w.setup.Grace, MaxExecutions: w.setup.MaxRuns,
		Drain: -1, Beat: time.Hour, Lease: 4 * time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	w.stop, w.ended = stop, make(chan error, 1)
	go func(ended chan error) { ended <- eng.Run(ctx) }(w.ended)
	return eng
}

// Kill makes the engine's store deaf, as SIGKILL would, and then lets the process of the test tidy up.
func (w *world) Kill(t *testing.T) {
	t.Helper()
	if w.stop == nil {
		w.shut()
		return
	}
	w.mortal.dead.Store(true)
	w.Stop(t)
	w.shut()
}

// Stop ends the engine by its context. Intents can still be given to it, since its store stays open until the next Start.
func (w *world) Stop(t *testing.T) {
	t.Helper()
	w.stop()
	<-w.ended
	w.stop = nil
}

// shut closes the store of an engine that has ended.
func (w *world) shut() {
	if w.mortal != nil {
		w.close(w.mortal.Store)
		w.mortal = nil
	}
}

// Effects returns the keys of a tool's effects.
func (w *world) Effects(name string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.effects[name])
}

// Entered waits until a tool was entered n times.
func (w *world) Entered(t *testing.T, name string, n int) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for {
		w.mu.Lock()
		got, news := w.entered[name], w.news
		w.mu.Unlock()
		if got >= n {
			return
		}
		select {
		case <-news:
		case <-limit:
			t.Fatalf("%s was entered %d times, want %d", name, got, n)
		}
	}
}

// Release lets a tool end.
func (w *world) Release(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open1(name)
}

// open1 is called with mu held.
func (w *world) open1(name string) {
	select {
	case <-w.gate(name):
	default:
		close(w.gate(name))
	}
}

// gate is called with mu held.
func (w *world) gate(name string) chan struct{} {
	if w.released[name] == nil {
		w.released[name] = make(chan struct{})
	}
	return w.released[name]
}

// Commits counts transactions.
func (w *world) Commits() int { return int(w.commits.Load()) }

// effect records one effect.
func (w *world) effect(name, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.effects[name] = append(w.effects[name], key)
}

// hold waits until the tool is released or ctx ends.
func (w *world) hold(ctx context.Context, name string) error {
	w.mu.Lock()
	gate := w.gate(name)
	w.entered[name]++
	close(w.news)
	w.news = make(chan struct{})
	w.mu.Unlock()
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// mortal is a store that a dead engine cannot reach any more. It can also be told to die by itself, at one of
// its transactions.
type mortal struct {
	store.Store
	dead    atomic.Bool
	count   *atomic.Int64
	point   death         // where to die; the zero value is nowhere
	own     atomic.Int64  // transactions of this engine
	expired chan struct{} // closed when it died by itself; nil without a point
}

// death is a place to die: at the nth transaction of an engine, from 1, before it or after it without telling.
type death struct {
	n     int64
	after bool
}

// InTx refuses the dead, also when they died while they waited for their turn.
func (m *mortal) InTx(ctx context.Context, fn func(store.Tx) error) error {
	if m.dead.Load() {
		return perdure.Unavailable
	}
	m.count.Add(1)
	if m.own.Add(1) == m.point.n {
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
func (m *mortal) die(ctx context.Context, fn func(store.Tx) error) error {
	if m.point.after {
		if err := m.Store.InTx(ctx, fn); err != nil {
			return err
		}
	}
	m.dead.Store(true)
	close(m.expired)
	return perdure.Unavailable
}
