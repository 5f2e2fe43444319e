package local_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/enginerig"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
)

// death is a crash point.
type death = enginerig.KillPoint

// world is the environment of engines over one store.
type world struct {
	*enginerig.Outside
	setup enginetest.Setup
	model *scripted.Model
	open  func(t *testing.T) store.Store
	close func(store.Store)

	point   death                    // of the next engine
	mortal  *enginerig.KillableStore // of the running engine
	stop    context.CancelFunc
	ended   chan error // of the running engine; capacity 1
	commits atomic.Int64
	tells   local.Telemetry // the zero value: none
}

func newWorld(t *testing.T, s enginetest.Setup, open func(*testing.T) store.Store, closeStore func(store.Store)) *world {
	t.Helper()
	m, err := scripted.Parse("law", []byte(s.Script))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Outside: enginerig.NewOutside(), setup: s, model: m, open: open, close: closeStore}
	t.Cleanup(func() {
		w.ReleaseAll()
		w.Kill(t)
	})
	return w
}

// Start creates an engine over the store and runs it.
func (w *world) Start(t *testing.T) engine.Engine {
	t.Helper()
	w.shut()
	w.mortal = enginerig.NewKillableStore(w.open(t), &w.commits, w.point)
	w.point = death{}
	cfg := enginerig.Config(w.setup, w.mortal, w.model, w.Tools())
	cfg.Telemetry = w.tells
	eng, err := local.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	w.stop, w.ended = stop, make(chan error, 1)
	go func(ended chan error) { ended <- eng.Run(ctx) }(w.ended)
	return eng
}

// Kill cuts off the engine's store, as SIGKILL would, and then lets the test process clean up.
func (w *world) Kill(t *testing.T) {
	t.Helper()
	if w.stop == nil {
		w.shut()
		return
	}
	w.mortal.Kill()
	w.Stop(t)
	w.shut()
}

// Stop ends the engine by its context. It still accepts intents, since its store stays open until
// the next Start.
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

// Commits counts transactions.
func (w *world) Commits() int { return int(w.commits.Load()) }

// words are the arguments of most of the tools of these tests.
type words struct {
	Text string `json:"text,omitempty"`
}

type answer = map[string]string
