package local_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
)

// held is a tool that withholds its own result until it is released.
type held struct {
	tool.Tool
	reached chan perdure.CallKey // capacity 1
	letGo   chan struct{}
}

// Run runs the tool, and waits.
func (h held) Run(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
	result := h.Tool.Run(ctx, call, env)
	h.reached <- perdure.CallKey{Session: call.Session, Call: call.ID}
	select {
	case <-h.letGo:
	case <-ctx.Done():
	}
	return result
}

// TestASpawningCallIsNotDetached requests to detach a call that has just started a background run.
// The run has the ids that the call's own task would have (TK1), so the call stays, and the record
// of the run is unchanged (LN5).
func TestASpawningCallIsNotDetached(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"spawn_background": `{"steps":[{"calls":[{"name":"spawn_background","args":{"tool":"work","title":"the work","args":{}}}]},{"text":"done","repeat":true}]}`,
		"boss":             `{"steps":[{"calls":[{"name":"boss","args":{}}]},{"text":"done","repeat":true}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hold := held{reached: make(chan perdure.CallKey, 1), letGo: make(chan struct{})}
			eng, id := detachRig(t, script, func(t tool.Tool) tool.Tool {
				if t.Spec().Name != name {
					return t
				}
				hold.Tool = t
				return hold
			})
			var key perdure.CallKey
			select {
			case key = <-hold.reached:
			case <-t.Context().Done():
				t.Fatal("the call was never entered")
			}

			_, err := eng.Calls().Detach(t.Context(), key, "user")
			close(hold.letGo)

			if !errors.Is(err, perdure.Conflict) {
				t.Errorf("got %v, want a conflict", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := eng.Sessions().WaitIdle(ctx, id); err != nil {
				t.Fatal(err)
			}
			tasks, err := eng.Tasks().List(ctx, id)
			if err != nil || len(tasks) != 1 || tasks[0].Tool != "work" || tasks[0].Origin != perdure.OriginSpawned || tasks[0].State != perdure.TaskSucceeded {
				t.Errorf("got %+v, %v", tasks, err)
			}
			events, err := eng.Events(ctx, id, 0, 0)
			created := 0
			for _, event := range events {
				if event.Type() == (perdure.TaskCreated{}).EventType() {
					created++
				}
			}
			if err != nil || created != 1 {
				t.Errorf("%d tasks were created, %v", created, err)
			}
		})
	}
}

// detachRig runs an engine with a tool that can run in the background and one that starts it, and
// sends a message.
func detachRig(t *testing.T, script string, dress func(tool.Tool) tool.Tool) (engine.Engine, perdure.SessionID) {
	t.Helper()
	work := tool.NewBackground(tool.Spec{Name: "work", Description: "Works.", Class: perdure.AtMostOnce},
		func(context.Context, words, tool.Env) (answer, error) { return answer{"did": "it"}, nil })
	boss := tool.New(tool.Spec{Name: "boss", Description: "Lets others work.", Class: perdure.Idempotent, NeedsEnv: true},
		func(ctx context.Context, _ words, env tool.Env) (answer, error) {
			_, err := env.Tasks.Spawn(ctx, tool.SpawnRequest{Tool: "work", Args: []byte(`{}`), Title: "the work", NotifyEnd: true})
			return answer{"asked": "work"}, err
		})
	m, err := scripted.Parse("law", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	tools := tool.NewRegistry()
	for _, one := range append(background.Tools(background.Config{}), work, boss) {
		tools.Register(dress(one))
	}
	eng, err := local.Open(t.Context(), local.Config{Store: memory.New(memory.Config{}), Model: m, Tools: tools, Timing: local.Timing{Drain: -1}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1) // one result
	go func() { ended <- eng.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	s, err := eng.Sessions().Create(t.Context(), perdure.Agent{})
	if err == nil {
		_, err = eng.Send(t.Context(), s.ID, perdure.Text("go"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return eng, s.ID
}

// early is a tool that is entered and does not start its work until it is released.
type early struct {
	tool.Tool
	reached chan perdure.CallKey // capacity 1
	letGo   chan struct{}
}

// Run waits, and runs the tool.
func (e early) Run(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
	e.reached <- perdure.CallKey{Session: call.Session, Call: call.ID}
	select {
	case <-e.letGo:
	case <-ctx.Done():
	}
	return e.Tool.Run(ctx, call, env)
}

// TestADetachedCallSpawns starts a background run from a detached call: the call's own task has the
// derived ids, so the run has others.
func TestADetachedCallSpawns(t *testing.T) {
	t.Parallel()
	wait := early{reached: make(chan perdure.CallKey, 1), letGo: make(chan struct{})}
	script := `{"steps":[{"calls":[{"name":"boss","args":{}}]},{"text":"done","repeat":true}]}`
	eng, id := detachRig(t, script, func(t tool.Tool) tool.Tool {
		if t.Spec().Name != "boss" {
			return t
		}
		wait.Tool = t
		return wait
	})
	own, err := eng.Calls().Detach(t.Context(), <-wait.reached, "user")
	close(wait.letGo)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := eng.Sessions().WaitIdle(ctx, id); err != nil {
		t.Fatal(err)
	}

	tasks, err := eng.Tasks().List(ctx, id)
	if err != nil || len(tasks) != 2 || tasks[0].ID != own.ID || tasks[0].Tool != "boss" || tasks[1].Tool != "work" {
		t.Fatalf("got %+v, %v", tasks, err)
	}
	for _, task := range tasks {
		if task.State != perdure.TaskSucceeded || task.Delivered == perdure.NotDelivered {
			t.Errorf("got %+v", task)
		}
	}
}
