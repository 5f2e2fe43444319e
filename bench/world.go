package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
)

// engineRigConfig configures a world. Only Dir is required.
type engineRigConfig struct {
	Dir string
	// of a Postgres database, which the engine treats as shared; empty: SQLite in Dir
	URL   string
	Tools *tools                        // nil: without callbacks
	More  []tool.Tool                   // additional tools
	Wrap  func(store.Store) store.Store // between engine and store; nil: nothing
	Store store.Store                   // instead of a store in Dir or URL; nil: that
	Asked func(perdure.SessionID)       // the model was called; may be nil
	Soft  time.Duration                 // the engine's soft budget, which only linger uses; 0: the default
	// lease on a shared store, with heartbeats and orphan scans ten times as often; 0: the defaults
	Lease time.Duration
}

// engineRig is a running engine with a store on disk. The limits on background runs and detached
// calls are raised, so that runs do not wait for a slot.
type engineRig struct {
	*local.Engine
	cfg    engineRigConfig
	sqlite *sqlite.Store // nil for another store
	tally  *tally        // nil for SQLite
	store  store.Store   // as the engine sees it
	tools  *tools
	stop   context.CancelFunc
	ended  chan error // capacity 1

	mu    sync.Mutex
	waits map[perdure.SessionID]chan struct{} // guarded by mu; closed by the last answer of a turn
}

// openEngineRig opens a world and runs its engine.
func openEngineRig(ctx context.Context, cfg engineRigConfig) (*engineRig, error) {
	w := &engineRig{cfg: cfg, tools: cfg.Tools, ended: make(chan error, 1), waits: map[perdure.SessionID]chan struct{}{}}
	if w.tools == nil {
		w.tools = &tools{}
	}
	if err := w.openStore(ctx); err != nil {
		return nil, err
	}
	if cfg.Wrap != nil {
		w.store = cfg.Wrap(w.store)
	}
	eng, err := local.Open(ctx, local.Config{
		Store: w.store, Model: orderModel{asked: cfg.Asked, done: w.answered},
		Tools:    tool.NewRegistry(append(w.tools.list(), cfg.More...)...),
		Workers:  local.Workers{Shared: cfg.URL != "", Lease: cfg.Lease, Beat: cfg.Lease / 10, OrphanScan: cfg.Lease / 10},
		Limits:   local.Limits{SlotsPerSession: -1, DetachedPerSession: -1, SlotsPerProcess: -1, QueueLength: -1, MaxExecutions: -1, NoProgress: -1},
		Timing:   local.Timing{SoftBudget: cfg.Soft, Drain: -1},
		Outbound: local.Outbound{PerMinute: -1}, // measured without this limit
	})
	if err != nil {
		return nil, errors.Join(err, w.store.Close())
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	w.Engine, w.stop = eng, stop
	go func() { w.ended <- eng.Run(run) }() // until close, which waits for it
	return w, nil
}

// openStore opens the store of the world.
func (w *engineRig) openStore(ctx context.Context) error {
	if w.cfg.Store == nil && w.cfg.URL == "" {
		st, err := sqlite.Open(ctx, sqlite.Config{Dir: w.cfg.Dir, Program: "bench"})
		if err != nil {
			return err
		}
		w.sqlite, w.store = st, st
		return nil
	}
	under := w.cfg.Store
	if under == nil {
		st, err := postgres.Open(ctx, postgres.Config{URL: w.cfg.URL})
		if err != nil {
			return err
		}
		under = st
	}
	w.tally = &tally{Store: under}
	w.store = w.tally
	return nil
}

// transactions returns the number of writing transactions.
func (w *engineRig) transactions() int64 {
	if w.sqlite != nil {
		return w.sqlite.Stats().Transactions
	}
	return w.tally.transactions.Load()
}

// close stops the engine and closes its store.
func (w *engineRig) close() error {
	w.stop()
	return errors.Join(<-w.ended, w.store.Close())
}

// agent returns the agent of a world's session, with enough steps for any order.
func agent(serial bool) perdure.Agent {
	return perdure.Agent{Name: "bench", MaxIterations: 1 << 30, SerialCalls: serial}
}

// session starts a session.
func (w *engineRig) session(ctx context.Context, who perdure.Agent) (perdure.SessionID, error) {
	s, err := w.Sessions().Create(ctx, who)
	return s.ID, err
}

// answered receives the end of a turn from the model.
func (w *engineRig) answered(id perdure.SessionID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if wait := w.waits[id]; wait != nil {
		close(wait)
		delete(w.waits, id)
	}
}

// turn sends an order and returns after the last answer of its turn. It does not watch the journal,
// so that only the work is measured.
func (w *engineRig) turn(ctx context.Context, id perdure.SessionID, o order) error {
	wait := make(chan struct{})
	w.mu.Lock()
	w.waits[id] = wait
	w.mu.Unlock()
	if _, err := w.Send(ctx, id, o.message()); err != nil {
		return err
	}
	select {
	case <-wait:
		return nil
	case err := <-w.ended:
		w.ended <- err
		return fmt.Errorf("the engine stopped early: %w", err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// waitIdle is turn, and then waits until the session is idle.
func (w *engineRig) waitIdle(ctx context.Context, id perdure.SessionID, o order) error {
	if err := w.turn(ctx, id, o); err != nil {
		return err
	}
	return w.Sessions().WaitIdle(ctx, id)
}

// settled returns the number of settled calls of a session.
func (w *engineRig) settled(ctx context.Context, id perdure.SessionID) (int, error) {
	calls, err := w.Calls().List(ctx, id)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, c := range calls {
		if c.State == perdure.CallSettled && c.Result != nil && !c.Result.IsError() {
			n++
		}
	}
	return n, nil
}
