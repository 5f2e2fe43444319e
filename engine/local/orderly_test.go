package local_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// slowly is a model that signals each request, and answers when it is released.
type slowly struct {
	model.Model
	asked  chan struct{}
	answer chan struct{}
}

func (s slowly) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		select {
		case s.asked <- struct{}{}:
		case <-ctx.Done():
		}
		select {
		case <-s.answer:
			s.Model.Stream(ctx, req)(yield)
		case <-ctx.Done():
			yield(model.Delta{}, context.Cause(ctx))
		}
	}
}

// TestOrderlyStopsAreNoAttempts: a turn whose server is stopped in an orderly way again and again,
// before any progress, is not sealed for making no progress (TN1).
func TestOrderlyStopsAreNoAttempts(t *testing.T) {
	t.Parallel()
	st := memory.New(memory.Config{})
	script, err := scripted.Parse("slowly", []byte("steps: [{text: done, repeat: true}]"))
	if err != nil {
		t.Fatal(err)
	}
	m := slowly{Model: script, asked: make(chan struct{}), answer: make(chan struct{})}
	id := core.NewID[perdure.SessionID]()
	for life := range 6 {
		eng, err := local.Open(t.Context(), local.Config{Store: st, Model: m, Tools: tool.NewRegistry(), Timing: local.Timing{Drain: -1}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- eng.Run(ctx) }()
		if life == 0 {
			if _, err = eng.Sessions().CreateAs(ctx, id, perdure.Agent{}); err == nil {
				_, err = eng.Send(ctx, id, perdure.Text("hello"))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		<-m.asked
		if life == 5 {
			close(m.answer)
			if err := eng.Sessions().WaitIdle(ctx, id); err != nil {
				t.Error(err)
			}
			events, err := eng.Events(ctx, id, 0, 0)
			if err != nil || len(events) < 2 {
				t.Fatalf("%d events, %v", len(events), err)
			}
			if last := events[len(events)-2]; last.Type() != "turn.completed" {
				t.Errorf("the turn ended with %s: %+v", last.Type(), last.Fact)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}

// deafTool does not return before the end of the test.
type deafTool struct {
	began, over chan struct{}
}

func (d deafTool) Spec() tool.Spec {
	return tool.Spec{Name: "deaf", Description: "Hears nothing.", Class: perdure.Pure, Parameters: []byte(`{"type":"object"}`)}
}

func (d deafTool) Run(context.Context, tool.Call, tool.Env) tool.Result {
	close(d.began)
	<-d.over
	return tool.Success("heard")
}

// TestLeaseIsHandedBackByStuckWork: work that does not return does not hold the worker's lease: the
// next worker need not wait for its expiry (RC11).
func TestLeaseIsHandedBackByStuckWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Config{})
		script, err := scripted.Parse("deaf", []byte("steps: [{calls: [{name: deaf, args: {}}]}, {text: done, repeat: true}]"))
		if err != nil {
			t.Fatal(err)
		}
		deaf := deafTool{make(chan struct{}), make(chan struct{})}
		defer close(deaf.over)
		eng, err := local.Open(t.Context(), local.Config{Store: st, Model: script, Tools: tool.NewRegistry(deaf), Timing: local.Timing{Drain: -1, Return: time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- eng.Run(ctx) }()
		s, err := eng.Sessions().Create(ctx, perdure.Agent{})
		if err == nil {
			_, err = eng.Send(ctx, s.ID, perdure.Text("hello"))
		}
		if err != nil {
			t.Fatal(err)
		}
		<-deaf.began

		began := time.Now()
		stop()
		if err := <-ended; err != nil || time.Since(began) != time.Second {
			t.Errorf("it ended after %s, %v", time.Since(began), err)
		}

		var workers []store.Worker
		if err := st.View(context.Background(), func(r store.Reader) (err error) {
			workers, err = r.Workers().List()
			return err
		}); err != nil || len(workers) > 0 {
			t.Errorf("%d workers are left, %v", len(workers), err)
		}
	})
}
