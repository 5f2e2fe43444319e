package local_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
)

// asking is an engine whose tool ask uses a utility model.
type asking struct {
	*testing.T
	ctx context.Context
	eng *local.Engine
	id  perdure.SessionID

	gate chan struct{} // of the small model; capacity 1
}

// eachAsking runs a law over memory and SQLite. The tool ask returns the answer of the utility
// model.
func eachAsking(t *testing.T, script string, small func(gate chan struct{}) model.Model, law func(asking)) {
	t.Helper()
	for name, open := range map[string]func(t *testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return memory.New(memory.Config{}) },
		"sqlite": func(t *testing.T) store.Store {
			st, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = st.Close() })
			return st
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{}, 1)
			a := newAsking(t, open(t), script, small(gate))
			a.gate = gate
			law(a)
		})
	}
}

func newAsking(t *testing.T, st store.Store, script string, small model.Model) asking {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	ask := tool.NewBackground(tool.Spec{Name: "ask", Description: "Asks.", Class: perdure.Pure},
		func(ctx context.Context, in words, env tool.Env) (answer, error) {
			if env.Utility == nil {
				return nil, tool.Errorf("%s", tool.Missing("Utility model", "ask needs one.").Text)
			}
			text, err := env.Utility.Complete(ctx, tool.UtilityRequest{System: "be short", Prompt: in.Text, MaxTokens: 50})
			return answer{"text": text}, err
		})
	eng, err := local.Open(ctx, local.Config{
		Store: st, Model: parsed(t, script),
		Tools:   tool.NewRegistry(append(background.Tools(background.Config{}), ask)...),
		Timing:  local.Timing{Drain: -1},
		Utility: local.Utility{Model: small, Name: "small"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1) // one result
	go func() { ended <- eng.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	s, err := eng.Sessions().Create(ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	return asking{T: t, ctx: ctx, eng: eng, id: s.ID}
}

func parsed(t *testing.T, script string) *scripted.Model {
	t.Helper()
	m, err := scripted.Parse("law", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// say sends a message and waits for what follows.
func (a asking) say() {
	a.Helper()
	_, err := a.eng.Send(a.ctx, a.id, perdure.Text("go"))
	if err := errors.Join(err, a.eng.Sessions().WaitIdle(a.ctx, a.id)); err != nil {
		a.Fatal(err)
	}
}

// journal returns the bills of tools, the result of ask, and how the last turn ended.
func (a asking) journal() (bills []perdure.Event, asked []perdure.ToolResult, last perdure.Fact) {
	a.Helper()
	events, err := a.eng.Events(a.ctx, a.id, 0, 0)
	if err != nil {
		a.Fatal(err)
	}
	fold := perdure.NewSession(a.id)
	for _, e := range events {
		if err := fold.Apply(e); err != nil {
			a.Fatal(err)
		}
		switch f := e.Fact.(type) {
		case perdure.Generation:
			if f.Tool != "" {
				bills = append(bills, e)
			}
		case perdure.ToolCompleted:
			if f.Name == "ask" {
				asked = append(asked, f.Result)
			}
		case perdure.TurnCompleted, perdure.TurnFailed, perdure.TurnCanceled:
			last = f
		}
	}
	return bills, asked, last
}

const askOnce = `
steps:
  - calls: [{id: call_ask, name: ask, args: {text: what}}]
    usage: {input_tokens: 100, output_tokens: 10}
  - text: done
    usage: {input_tokens: 200, output_tokens: 20}
`

const smallAnswer = `
steps:
  - text: a small answer
    usage: {input_tokens: 7, output_tokens: 3}
`

// TestUtilityModel: a tool uses the utility model, which receives what the order contains and no
// tools, and its usage is in the journal under the call, and in the cost of its turn and session.
func TestUtilityModel(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var heard []*listener
	small := func(chan struct{}) model.Model {
		l := &listener{Model: parsed(t, smallAnswer)}
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, l)
		return l
	}
	eachAsking(t, askOnce, small, func(a asking) {
		a.say()

		bills, asked, last := a.journal()
		if len(asked) != 1 || string(asked[0].Result) != `{"text":"a small answer"}` {
			a.Errorf("asked: %+v", asked)
		}
		if len(bills) != 1 {
			a.Fatalf("bills: %+v", bills)
		}
		bill := bills[0].Fact.(perdure.Generation)
		want := perdure.Generation{Model: bill.Model, Usage: perdure.Usage{InputTokens: 7, OutputTokens: 3}, DurationMS: bill.DurationMS, FinishReason: "stop", Tool: "ask"}
		if diff := cmp.Diff(want, bill); diff != "" || bills[0].Call != "call_ask" || bills[0].Turn == "" || bills[0].Actor != "runtime" {
			a.Errorf("%+v (-want +got):\n%s", bills[0], diff)
		}
		all := perdure.Usage{InputTokens: 307, OutputTokens: 33}
		if done, ok := last.(perdure.TurnCompleted); !ok || done.Usage != all || done.LLMCallCount != 2 {
			a.Errorf("the turn: %+v", last)
		}
		if used := a.used(); used != all {
			a.Errorf("the session: %+v", used)
		}
	})
	t.Cleanup(func() {
		if len(heard) != 2 {
			t.Errorf("%d models", len(heard))
		}
		for _, l := range heard {
			if len(l.asked) != 1 {
				t.Fatalf("asked %d times", len(l.asked))
			}
			r := l.asked[0]
			if r.Model != "small" || r.System != "be short" || r.MaxTokens != 50 || len(r.Tools) != 0 || len(r.Messages) != 1 || r.Messages[0].Text() != "what" {
				t.Errorf("asked %+v", r)
			}
		}
	})
}

// used is the usage of the session by its journal.
func (a asking) used() perdure.Usage {
	a.Helper()
	fold := perdure.NewSession(a.id)
	events, err := a.eng.Events(a.ctx, a.id, 0, 0)
	if err != nil {
		a.Fatal(err)
	}
	for _, e := range events {
		if err := fold.Apply(e); err != nil {
			a.Fatal(err)
		}
	}
	return fold.Usage
}

// TestUtilityModelInTheBackground: a background run uses the model while no turn runs. Its bill is
// recorded under the task, and counts for the session, which remains usable.
func TestUtilityModelInTheBackground(t *testing.T) {
	t.Parallel()
	const script = `
rules:
  - {when: {notifications: 1}, text: heard of it, usage: {input_tokens: 1, output_tokens: 1}}
steps:
  - calls: [{name: spawn_background, args: {tool: ask, args: {text: what}}}]
    usage: {input_tokens: 1, output_tokens: 1}
  - text: waiting
    usage: {input_tokens: 1, output_tokens: 1}
`
	small := func(gate chan struct{}) model.Model { return &gated{Model: parsed(t, smallAnswer), open: gate} }
	eachAsking(t, script, small, func(a asking) {
		if _, err := a.eng.Send(a.ctx, a.id, perdure.Text("go")); err != nil {
			a.Fatal(err)
		}
		a.await("session.idled")
		if bills, _, _ := a.journal(); len(bills) != 0 {
			a.Fatalf("too early: %v", bills)
		}
		a.gate <- struct{}{}
		a.await("llm.generation", func(e perdure.Event) bool { return e.Fact.(perdure.Generation).Tool != "" })
		if err := a.eng.Sessions().WaitIdle(a.ctx, a.id); err != nil {
			a.Fatal(err)
		}

		bills, _, _ := a.journal()
		tasks, err := a.eng.Tasks().List(a.ctx, a.id)
		if err != nil || len(tasks) != 1 || tasks[0].State != perdure.TaskSucceeded {
			a.Fatalf("%+v, %v", tasks, err)
		}
		if len(bills) != 1 || bills[0].Task != tasks[0].ID || bills[0].Attempt != 1 {
			a.Errorf("bills: %+v", bills)
		}
		if used, turns := a.used(), a.turns(); used.InputTokens != turns.InputTokens+7 || used.OutputTokens != turns.OutputTokens+3 {
			a.Errorf("the session used %+v, its turns %+v", used, turns)
		}
	})
}

// await returns once the journal has an event of a type, which also fits.
func (a asking) await(kind perdure.EventType, fits ...func(perdure.Event) bool) {
	a.Helper()
	found := errors.New("found")
	err := a.eng.Follow(a.ctx, a.id, 0, func(f engine.Frame) error {
		if f.Event != nil && f.Event.Type() == kind && (len(fits) == 0 || fits[0](*f.Event)) {
			return found
		}
		return nil
	})
	if !errors.Is(err, found) {
		a.Fatal(kind, err)
	}
}

// turns is what the ended turns of the session used.
func (a asking) turns() (all perdure.Usage) {
	a.Helper()
	events, err := a.eng.Events(a.ctx, a.id, 0, 0)
	if err != nil {
		a.Fatal(err)
	}
	for _, e := range events {
		if f, ok := e.Fact.(perdure.TurnCompleted); ok {
			all = all.Add(f.Usage)
		}
	}
	return all
}

// gated is a model that answers once it is released.
type gated struct {
	model.Model
	open <-chan struct{}
}

func (g *gated) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		select {
		case <-g.open:
		case <-ctx.Done():
			yield(model.Delta{}, context.Cause(ctx))
			return
		}
		g.Model.Stream(ctx, req)(yield)
	}
}

// TestNoUtilityModel: without one the port is missing, and the tool says so.
func TestNoUtilityModel(t *testing.T) {
	t.Parallel()
	eachAsking(t, askOnce, func(chan struct{}) model.Model { return nil }, func(a asking) {
		a.say()

		bills, asked, last := a.journal()
		if len(bills) != 0 || len(asked) != 1 || asked[0].Error != "Utility model not available in this context. ask needs one." {
			a.Errorf("%v, %+v", bills, asked)
		}
		if _, ok := last.(perdure.TurnCompleted); !ok {
			a.Errorf("the turn: %+v", last)
		}
	})
}

// TestUtilityModelIsCanceled: a completion ends with its call, and its usage until then is billed.
func TestUtilityModelIsCanceled(t *testing.T) {
	t.Parallel()
	small := func(gate chan struct{}) model.Model { return endless{begun: gate} }
	eachAsking(t, askOnce, small, func(a asking) {
		if _, err := a.eng.Send(a.ctx, a.id, perdure.Text("go")); err != nil {
			a.Fatal(err)
		}
		select {
		case <-a.gate:
		case <-a.ctx.Done():
			a.Fatal("the model was not asked")
		}
		if err := errors.Join(a.eng.Sessions().Interrupt(a.ctx, a.id, "user", "enough"), a.eng.Sessions().WaitIdle(a.ctx, a.id)); err != nil {
			a.Fatal(err)
		}

		bills, asked, last := a.journal()
		if len(asked) != 1 || asked[0].ErrorKind != perdure.ErrorInterrupted {
			a.Errorf("asked: %+v", asked)
		}
		if len(bills) != 1 || bills[0].Fact.(perdure.Generation).Error != perdure.CodeInterrupted || bills[0].Fact.(perdure.Generation).Usage.InputTokens != 9 {
			a.Errorf("bills: %+v", bills)
		}
		if _, ok := last.(perdure.TurnCanceled); !ok {
			a.Errorf("the turn: %+v", last)
		}
	})
}

// endless is a model that starts an answer and never ends it.
type endless struct{ begun chan<- struct{} }

func (e endless) Stream(ctx context.Context, _ model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		if !yield(model.Delta{Text: "so", Usage: &perdure.Usage{InputTokens: 9}}, nil) {
			return
		}
		e.begun <- struct{}{}
		<-ctx.Done()
		yield(model.Delta{}, context.Cause(ctx))
	}
}

// TestUtilityModelFails: an error of the provider becomes the error of the tool, is billed, and
// does not fail the turn. There is one request.
func TestUtilityModelFails(t *testing.T) {
	t.Parallel()
	const failing = `
steps:
  - error: {code: provider_rate_limited, text: slow down}
    repeat: true
`
	eachAsking(t, askOnce, func(chan struct{}) model.Model { return parsed(t, failing) }, func(a asking) {
		a.say()

		bills, asked, last := a.journal()
		if len(asked) != 1 || !asked[0].IsError() {
			a.Errorf("asked: %+v", asked)
		}
		if len(bills) != 1 || bills[0].Fact.(perdure.Generation).Error != string(model.RateLimited) {
			a.Errorf("bills: %+v", bills)
		}
		if _, ok := last.(perdure.TurnCompleted); !ok {
			a.Errorf("the turn: %+v", last)
		}
	})
}
