package local_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/enginerig"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// TestSharedEngines is the suite of several engines over one in-memory store, in virtual time.
func TestSharedEngines(t *testing.T) {
	t.Parallel()
	enginetest.RunShared(t, synctest.Test, func(t *testing.T, s enginetest.Setup) enginetest.SharedWorld {
		st := memory.New(memory.Config{})
		return newSharedWorld(t, s, func(*testing.T) store.Store { return st }, func(store.Store) {})
	})
}

// sharedWorld is the environment of several engines that run over one store at the same time.
type sharedWorld struct {
	*enginerig.Outside
	setup   enginetest.Setup
	model   *scripted.Model
	open    func(*testing.T) store.Store // a handle of the store, for one engine
	close   func(store.Store)
	engines map[engine.Engine]*joined
	commits atomic.Int64
}

// joined is a running engine.
type joined struct {
	store *enginerig.KillableStore
	stop  context.CancelFunc
	ended chan error // capacity 1
}

func newSharedWorld(t *testing.T, s enginetest.Setup, open func(*testing.T) store.Store, closeStore func(store.Store)) *sharedWorld {
	t.Helper()
	m, err := scripted.Parse("law", []byte(s.Script))
	if err != nil {
		t.Fatal(err)
	}
	w := &sharedWorld{Outside: enginerig.NewOutside(), setup: s, model: m, open: open, close: closeStore, engines: map[engine.Engine]*joined{}}
	t.Cleanup(func() {
		w.ReleaseAll()
		for eng := range w.engines {
			w.KillEngine(t, eng)
		}
	})
	return w
}

// Join starts one more engine over the store and runs it.
func (w *sharedWorld) Join(t *testing.T) engine.Engine {
	t.Helper()
	return w.joinAt(t, local.Storage{})
}

// joinAt is Join with a data directory.
func (w *sharedWorld) joinAt(t *testing.T, data local.Storage) engine.Engine {
	t.Helper()
	j := &joined{store: enginerig.NewKillableStore(w.open(t), &w.commits, death{}), ended: make(chan error, 1)}
	cfg := enginerig.Config(w.setup, j.store, w.model, w.Tools())
	cfg.Workers, cfg.Storage = local.Workers{Shared: true}, data
	eng, err := local.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	j.stop = stop
	w.engines[eng] = j
	go func() { j.ended <- eng.Run(ctx) }()
	return eng
}

// KillEngine cuts an engine off from the store, and then lets the test process clean up.
func (w *sharedWorld) KillEngine(_ *testing.T, eng engine.Engine) {
	j := w.engines[eng]
	delete(w.engines, eng)
	j.store.Kill()
	j.stop()
	<-j.ended
	w.close(j.store.Store)
}
