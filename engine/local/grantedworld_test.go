package local_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/host"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/enginerig"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// TestGranted is the suite over two engines under an adversarial scheduler: it says everything
// twice, late, in any order and to both engines, forgets a third of it, and uses stale grants.
func TestGranted(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, func(t *testing.T, s enginetest.Setup) enginetest.World {
		return newGrantedWorld(t, s, memory.New(memory.Config{}))
	})
}

// grantedWorld is the environment of two engines over one store, which one scheduler gives work.
type grantedWorld struct {
	*world
	shared    store.Store
	engines   []*grantedEngine
	scheduler *adversary
}

// grantedEngine is a running engine.
type grantedEngine struct {
	*local.Granted
	store *enginerig.KillableStore
	stop  context.CancelFunc
	ended chan error // capacity 1
}

func newGrantedWorld(t *testing.T, s enginetest.Setup, st store.Store) *grantedWorld {
	t.Helper()
	w := &grantedWorld{shared: st}
	w.world = newWorld(t, s, nil, func(store.Store) {})
	w.scheduler = newAdversary(t)
	t.Cleanup(func() {
		w.ReleaseAll()
		w.Kill(t)
	})
	return w
}

// Start runs two engines, and returns the first one.
func (w *grantedWorld) Start(t *testing.T) engine.Engine {
	t.Helper()
	w.engines = nil
	for range 2 {
		e := &grantedEngine{store: enginerig.NewKillableStore(w.shared, &w.commits, w.point), ended: make(chan error, 1)}
		w.point = death{}
		cfg := enginerig.Config(w.setup, e.store, w.model, w.Tools())
		var err error
		if e.Granted, err = local.OpenGranted(t.Context(), cfg, w.scheduler); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		e.stop = stop
		go func() { e.ended <- e.Run(ctx) }()
		<-e.Started()
		w.engines = append(w.engines, e)
	}
	w.scheduler.begin(w.engines)
	return w.engines[0].Granted
}

// Engines returns the running engines.
func (w *grantedWorld) Engines() (all []engine.Engine) {
	for _, e := range w.engines {
		all = append(all, e.Granted)
	}
	return all
}

// Stop ends both engines.
func (w *grantedWorld) Stop(*testing.T) {
	for _, e := range w.engines {
		e.stop()
	}
	for _, e := range w.engines {
		<-e.ended
	}
	w.scheduler.end()
	w.engines = nil
}

// Kill cuts both engines off from the store. That their workers are dead is known at once.
func (w *grantedWorld) Kill(t *testing.T) {
	t.Helper()
	engines := w.engines
	for _, e := range engines {
		e.store.Kill()
	}
	w.Stop(t)
	for _, e := range engines {
		err := w.shared.InTx(context.WithoutCancel(t.Context()), func(tx store.Tx) error {
			dead, err := tx.Workers().Get(e.Worker())
			if err == nil {
				dead.LeaseUntil = tx.Now()
				err = tx.Workers().Put(dead)
			}
			return err
		})
		if err != nil && !errors.Is(err, perdure.NotFound) { // it is gone already
			t.Error(err)
		}
	}
}

// adversary is a scheduler that does everything it may do.
type adversary struct {
	t *testing.T

	quiet bool // it gives out nothing by itself

	mu      sync.Mutex
	engines []*grantedEngine     // guarded by mu; nil: none runs
	grants  map[store.Work]int64 // guarded by mu; the last one that was given out
	ctx     context.Context      // guarded by mu; of the run
	stop    context.CancelFunc
	work    sync.WaitGroup
}

func newAdversary(t *testing.T) *adversary {
	return &adversary{t: t, grants: map[store.Work]int64{}}
}

var _ local.OutsideScheduler = (*adversary)(nil)

// Name is the name of a scheduler on Temporal.
func (a *adversary) Name() string { return "temporal:test/adversary" }

// begin gives work to engines until end.
func (a *adversary) begin(engines []*grantedEngine) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.quiet {
		return
	}
	a.engines = engines
	a.ctx, a.stop = context.WithCancel(context.Background())
	ctx := a.ctx
	a.work.Go(func() { a.reconcile(ctx, engines) })
	a.work.Go(func() { a.tidy(ctx, engines) })
}

func (a *adversary) end() {
	a.mu.Lock()
	stop := a.stop
	a.engines = nil
	a.mu.Unlock()
	if stop != nil {
		stop()
	}
	a.work.Wait()
}

// Wake has a session driven, now and then not.
func (a *adversary) Wake(id perdure.SessionID) {
	if rand.IntN(3) > 0 {
		a.give(store.Work{Session: id})
	}
}

// StartQueued has queued runs started, now and then not.
func (a *adversary) StartQueued() {
	if rand.IntN(3) == 0 {
		return
	}
	a.later(func(ctx context.Context, engines []*grantedEngine) {
		runs, err := engines[rand.IntN(2)].DueRuns(ctx, "")
		if err == nil {
			a.giveRuns(runs)
		}
	})
}

func (a *adversary) giveRuns(runs []host.WaitingRun) {
	for _, r := range runs {
		a.heard(store.Work{Task: r.ID}, r.Grant)
		a.give(store.Work{Task: r.ID})
	}
}

// later calls do in a goroutine, unless no engine runs.
func (a *adversary) later(do func(context.Context, []*grantedEngine)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.engines == nil {
		return
	}
	ctx, engines := a.ctx, a.engines
	a.work.Go(func() { do(ctx, engines) })
}

// give gives a work to one engine or to both, twice, and later also under a grant that is stale by
// then. A task is named without its session here.
func (a *adversary) give(w store.Work) {
	for range 1 + rand.IntN(2) {
		a.later(func(ctx context.Context, engines []*grantedEngine) {
			sleep(ctx, time.Duration(rand.IntN(3))*time.Millisecond)
			n := a.next(w)
			first := rand.IntN(2)
			a.try(ctx, engines, first, w, n)
			if rand.IntN(3) == 0 {
				a.try(ctx, engines, 1-first, w, n)
			}
		})
	}
}

// next counts a grant.
func (a *adversary) next(w store.Work) host.Grant {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.grants[w]++
	return host.Grant{Number: a.grants[w]}
}

// heard notes a number that the store knows.
func (a *adversary) heard(w store.Work, number int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.grants[w] = max(a.grants[w], number)
}

// try has an engine work under a grant, and checks that no other one worked under it.
func (a *adversary) try(ctx context.Context, engines []*grantedEngine, at int, w store.Work, g host.Grant) {
	var left host.Left
	var err error
	if w.Task == "" {
		left, err = engines[at].Drive(ctx, w.Session, g)
	} else {
		left, err = engines[at].RunTask(ctx, w.Task, g)
	}
	a.heard(w, left.Grant)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		if !errors.Is(err, perdure.Lost) && !errors.Is(err, perdure.NotFound) && !errors.Is(err, perdure.Unavailable) && ctx.Err() == nil && !host.Permanent(err) {
			a.t.Logf("%v under %v: %v", w, g, err)
		}
		return
	}
}

// reconcile gives out what Due lists until ctx ends.
func (a *adversary) reconcile(ctx context.Context, engines []*grantedEngine) {
	for ; ctx.Err() == nil; sleep(ctx, 50*time.Millisecond) {
		for after := ""; ; {
			page, err := engines[rand.IntN(2)].Due(ctx, after, 1+rand.IntN(5))
			if err != nil {
				break
			}
			for _, s := range page.Sessions {
				w := store.Work{Session: s.ID}
				a.heard(w, s.Grant)
				a.give(w)
			}
			a.giveRuns(page.Runs)
			if after = page.Next; after == "" {
				break
			}
		}
	}
}

// tidy has one engine keep the time, and both tidy up.
func (a *adversary) tidy(ctx context.Context, engines []*grantedEngine) {
	a.work.Go(func() { _ = engines[rand.IntN(2)].KeepTime(ctx) })
	for ; ctx.Err() == nil; sleep(ctx, 100*time.Millisecond) {
		_ = engines[rand.IntN(2)].Tidy(ctx)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
