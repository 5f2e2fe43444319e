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

// worldConfig says what a world is made of. Only Dir is required.
type worldConfig struct {
	Dir   string
	URL   string                        // of a database in Postgres, which the engine takes to be shared; empty: SQLite in Dir
	Tools *tools                        // nil: without anybody who listens
	More  []tool.Tool                   // beside them
	Wrap  func(store.Store) store.Store // between engine and store; nil: nothing
	Store store.Store                   // instead of one of Dir or URL; nil: that
	Asked func(perdure.SessionID)       // the model was asked; nil: nobody listens
	Soft  time.Duration                 // the engine's soft budget, which of the tools only linger takes; 0: the engine's default
	Lease time.Duration                 // of the engine on a shared store, with beats and looks for orphans ten times as often; 0: the engine's defaults
}

// world is a running engine over a store on the disk, with the caps on background runs and detached calls raised: what is measured is a
// run, not the waiting for a place.
type world struct {
	*local.Engine
	cfg    worldConfig
	sqlite *sqlite.Store // nil when it is another store
	tally  *tally        // nil when it is SQLite
	store  store.Store   // as the engine sees it
	tools  *tools
	stop   context.CancelFunc
	ended  chan error // capacity 1

	mu    sync.Mutex
	waits map[perdure.SessionID]chan struct{} // guarded by mu; closed by the last answer of a turn
}

// openWorld opens a world and runs its engine.
func openWorld(ctx context.Context, cfg worldConfig) (*world, error) {
	w := &world{cfg: cfg, tools: cfg.Tools, ended: make(chan error, 1), waits: map[perdure.SessionID]chan struct{}{}}
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
		Store: w.store, Model: orders{asked: cfg.Asked, done: w.answered}, Tools: tool.NewRegistry(append(w.tools.list(), cfg.More...)...),
		Shared: cfg.URL != "", Lease: cfg.Lease, Beat: cfg.Lease / 10, OrphanScan: cfg.Lease / 10,
		PerSession: -1, PerSessionDetached: -1, PerProcess: -1, SoftBudget: cfg.Soft, QueueLength: -1, MaxExecutions: -1, NoProgress: -1, Drain: -1,
		Outbound: local.Outbound{PerMinute: -1}, // figures of the path without it
	})
	if err != nil {
		return nil, errors.Join(err, w.store.Close())
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	w.Engine, w.stop = eng, stop
	go func() { w.ended <- eng.Run(run) }() // until close, which waits for it
	return w, nil
}

// openStore opens the store that the world is over.
func (w *world) openStore(ctx context.Context) error {
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

// transactions counts those that wrote.
func (w *world) transactions() int64 {
	if w.sqlite != nil {
		return w.sqlite.Stats().Transactions
	}
	return w.tally.transactions.Load()
}

// close stops the engine and closes its store.
func (w *world) close() error {
	w.stop()
	return errors.Join(<-w.ended, w.store.Close())
}

// agent is who a session of a world is: it may take as many steps as it is asked for.
func agent(serial bool) perdure.Agent {
	return perdure.Agent{Name: "bench", MaxIterations: 1 << 30, SerialCalls: serial}
}

// session starts a session.
func (w *world) session(ctx context.Context, who perdure.Agent) (perdure.SessionID, error) {
	s, err := w.NewSession(ctx, who)
	return s.ID, err
}

// answered is told by the model of the last answer of a turn.
func (w *world) answered(id perdure.SessionID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if wait := w.waits[id]; wait != nil {
		close(wait)
		delete(w.waits, id)
	}
}

// turn sends an order and returns when its turn has its last answer. Nobody watches the journal meanwhile, so that
// what is measured is the work and not its audience.
func (w *world) turn(ctx context.Context, id perdure.SessionID, o order) error {
	wait := make(chan struct{})
	w.mu.Lock()
	w.waits[id] = wait
	w.mu.Unlock()
	if err := w.Send(ctx, id, o.message()); err != nil {
		return err
	}
	select {
	case <-wait:
		return nil
	case err := <-w.ended:
		w.ended <- err
		return fmt.Errorf("the engine ended in the middle: %w", err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// rested is turn, and then the wait until the session is at rest.
func (w *world) rested(ctx context.Context, id perdure.SessionID, o order) error {
	if err := w.turn(ctx, id, o); err != nil {
		return err
	}
	return w.WaitIdle(ctx, id)
}

// settled counts the settled calls of a session.
func (w *world) settled(ctx context.Context, id perdure.SessionID) (int, error) {
	calls, err := w.Calls(ctx, id)
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
