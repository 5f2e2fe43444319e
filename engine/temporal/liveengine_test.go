//go:build live

package temporal

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/internal/enginerig"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// TestLiveEngine is the suite of all engines over two engines that a real server gives work. Each
// law has a prefix of its own.
func TestLiveEngine(t *testing.T) {
	server := newWorld(t)
	var laws atomic.Int64
	enginetest.Run(t, func(t *testing.T, s enginetest.Setup) enginetest.World {
		m, err := scripted.Parse("law", []byte(s.Script))
		if err != nil {
			t.Fatal(err)
		}
		w := &engineWorld{Outside: enginerig.NewOutside(), setup: s, model: m, address: server.address,
			prefix: fmt.Sprintf("law%d", laws.Add(1)), shared: memory.New(memory.Config{})}
		t.Cleanup(func() {
			w.ReleaseAll()
			w.Kill(t)
		})
		return w
	})
}

// engineWorld is the environment of two engines over one store.
type engineWorld struct {
	*enginerig.Outside
	setup   enginetest.Setup
	model   *scripted.Model
	address string // of the server
	prefix  string
	shared  store.Store
	commits atomic.Int64
	engines []*liveEngine
}

// liveEngine is a running engine.
type liveEngine struct {
	*Engine
	store *enginerig.KillableStore
	stop  context.CancelFunc
	ended chan error // capacity 1
}

// Start runs two engines, and returns the first one.
func (w *engineWorld) Start(t *testing.T) engine.Engine {
	t.Helper()
	w.engines = nil
	for range 2 {
		w.join(t, Config{})
	}
	return w.engines[0].Engine
}

// join runs one more engine, with the capabilities of cfg.
func (w *engineWorld) join(t *testing.T, cfg Config) *Engine {
	t.Helper()
	c, _, err := Dial(DialOptions{Address: w.address, Log: discardLogger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cfg.Client, cfg.Prefix, cfg.Drain = c, w.prefix, time.Second
	cfg.Heartbeat, cfg.Patience, cfg.Tidy, cfg.Reconcile = 3*time.Second, time.Second, 2*time.Second, 200*time.Millisecond
	e := &liveEngine{store: enginerig.NewKillableStore(w.shared, &w.commits, enginerig.KillPoint{}), ended: make(chan error, 1)}
	e.Engine, err = Open(t.Context(), enginerig.Config(w.setup, e.store, w.model, w.Tools()), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	e.stop = stop
	go func() { e.ended <- e.Run(ctx) }()
	<-e.Started()
	w.engines = append(w.engines, e)
	return e.Engine
}

// Engines returns the running engines.
func (w *engineWorld) Engines() (all []engine.Engine) {
	for _, e := range w.engines {
		all = append(all, e.Engine)
	}
	return all
}

// Stop ends both engines.
func (w *engineWorld) Stop(*testing.T) {
	for _, e := range w.engines {
		e.stop()
	}
	for _, e := range w.engines {
		<-e.ended
	}
	w.engines = nil
}

// Kill cuts both engines off from the store. That their workers are dead is known at once.
func (w *engineWorld) Kill(t *testing.T) {
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
		if err != nil {
			t.Error(err)
		}
	}
}

// Commits counts the transactions of the engines.
func (w *engineWorld) Commits() int { return int(w.commits.Load()) }
