package local_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// TestAskWithoutRun asks an engine before, beside and after its Run.
func TestAskWithoutRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		eng := openHello(t, memory.New(memory.Config{}), false)
		s, err := eng.Ensure(ctx, "key", perdure.Agent{})
		if err != nil {
			t.Fatal(err)
		}

		_, err = eng.Ask(ctx, s.ID, perdure.Text("before"))
		if !errors.Is(err, engine.NotRunning) || !errors.Is(err, perdure.Unavailable) {
			t.Errorf("before Run: %v, want NotRunning", err)
		}

		work, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			<-time.After(time.Second) // virtual time: Run begins after Ask
			ended <- eng.Run(work)
		}()
		got, err := eng.Ask(ctx, s.ID, perdure.Text("beside"))
		if err != nil || got.Text != "hello" {
			t.Errorf("beside Run: %+v, %v", got, err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}

		began := time.Now()
		_, err = eng.Ask(ctx, s.ID, perdure.Text("after"))
		if !errors.Is(err, engine.NotRunning) || time.Since(began) != 0 {
			t.Errorf("after Run: %v after %s, want NotRunning at once", err, time.Since(began))
		}
		events, err := eng.Events(ctx, s.ID, 0, 0)
		received := 0
		for _, e := range events {
			if _, ok := e.Fact.(perdure.MessageReceived); ok {
				received++
			}
		}
		if err != nil || received != 1 {
			t.Errorf("%d messages were sent, want only that beside Run; %v", received, err)
		}
	})
}

// TestAskEndsWithRun ends Run while a question is open.
func TestAskEndsWithRun(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	eng := openHello(t, memory.New(memory.Config{}), true)
	s, err := eng.Ensure(ctx, "key", perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	ended, answered := make(chan error, 1), make(chan error, 1)
	go func() { ended <- eng.Run(work) }()
	go func() {
		_, err := eng.Ask(ctx, s.ID, perdure.Text("go"))
		answered <- err
	}()
	waitFor(t, eng, s.ID, func(f perdure.Fact) bool { _, ok := f.(perdure.ReasonStarted); return ok })

	stop()

	if err := <-answered; !errors.Is(err, engine.NotRunning) {
		t.Errorf("got %v, want NotRunning", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestAskOnASharedStore asks an engine whose work another one does.
func TestAskOnASharedStore(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	st := memory.New(memory.Config{})
	worker, asking := openShared(t, st), openShared(t, st)
	work, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(work) }()
	if _, err := worker.Running(ctx); err != nil {
		t.Fatal(err)
	}
	s, err := asking.Ensure(ctx, "key", perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}

	got, err := asking.Ask(ctx, s.ID, perdure.Text("go"))

	if err != nil || got.Text != "hello" {
		t.Errorf("got %+v, %v", got, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// openHello opens an engine whose model says hello, or never answers.
func openHello(t *testing.T, st store.Store, silent bool) *local.Engine {
	t.Helper()
	script := "steps: [{text: hello, repeat: true}]"
	if silent {
		script = "steps: [{text: hello, delay: 10m, repeat: true}]"
	}
	return openScript(t, st, script, local.Workers{})
}

func openShared(t *testing.T, st store.Store) *local.Engine {
	t.Helper()
	return openScript(t, st, "steps: [{text: hello, repeat: true}]", local.Workers{
		Shared: true, OrphanScan: 20 * time.Millisecond,
	})
}

func openScript(t *testing.T, st store.Store, script string, workers local.Workers) *local.Engine {
	t.Helper()
	model, err := scripted.Parse("hello", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	eng, err := local.Open(t.Context(), local.Config{
		Store: st, Model: model, Tools: tool.NewRegistry(), Workers: workers, Timing: local.Timing{Drain: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	return eng
}

// waitFor waits until an event of a session has a fact.
func waitFor(t *testing.T, eng *local.Engine, id perdure.SessionID, match func(perdure.Fact) bool) {
	t.Helper()
	found := errors.New("found")
	err := eng.Follow(t.Context(), id, 0, func(f engine.Frame) error {
		if f.Event != nil && match(f.Event.Fact) {
			return found
		}
		return nil
	})
	if !errors.Is(err, found) {
		t.Fatal(err)
	}
}
