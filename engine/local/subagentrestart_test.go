package local_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
	"github.com/perdure/perdure/tool/subagent"
)

// TestNamedSubagentAfterARestart: a call that runs again finds the subagent that it started, even
// if the agent can no longer be named by then.
func TestNamedSubagentAfterARestart(t *testing.T) {
	t.Parallel()
	var there atomic.Bool
	there.Store(true)
	entered, release := make(chan struct{}, 9), make(chan struct{})
	hold := holdUntil(entered, release)
	m, err := scripted.Parse("restart", []byte(`
rules:
  - when: {user_contains: the piece, not_called: hold}
    calls: [{name: hold, args: {}}]
  - when: {user_contains: hire, not_called: spawn_subagent}
    calls: [{name: spawn_subagent, args: {name: piece, task: do the piece, agent: build}}]
  - when: {last_role: tool_result}
    text: "{{last}}"
steps: [{text: "Hm.", repeat: true}]
`))
	if err != nil {
		t.Fatal(err)
	}
	cfg := local.Config{Store: memory.New(memory.Config{}), Model: m, Catalogue: local.Catalogue{Providers: local.Providers{
		Agents: func() (map[string]local.ConfiguredAgent, error) {
			if !there.Load() {
				return nil, nil
			}
			return map[string]local.ConfiguredAgent{"build": {Agent: perdure.Agent{Instructions: "You build."}}}, nil
		},
	}}}
	cfg.Timing.Drain = -1
	// run runs an engine over the store until during returns.
	run := func(during func(eng *local.Engine)) {
		tools := append(subagent.Tools(), background.Tools(background.Config{})...)
		cfg.Tools = tool.NewRegistry(append(tools, hold)...)
		eng, err := local.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		ended := make(chan error, 1) // of Run
		go func() { ended <- eng.Run(ctx) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		during(eng)
	}

	var id perdure.SessionID
	run(func(eng *local.Engine) {
		s, err := eng.Sessions().Create(t.Context(), perdure.Agent{})
		if err == nil {
			id = s.ID
			_, err = eng.Send(t.Context(), id, perdure.Text("hire"))
		}
		if err != nil {
			t.Fatal(err)
		}
		<-entered
	})
	there.Store(false)
	close(release)
	run(func(eng *local.Engine) {
		sessions, failed := eng.Sessions().List(t.Context(), 0)
		err := errors.Join(failed, eng.Sessions().WaitIdle(t.Context(), id))
		if err != nil {
			t.Fatal(err)
		}
		if last := lastSaid(t, eng, id); !strings.Contains(last, "held") || len(sessions) != 2 {
			t.Errorf("%d sessions, got %q", len(sessions), last)
		}
	})
}

// holdUntil returns a tool that reports each start and works until it is released.
func holdUntil(entered chan<- struct{}, release <-chan struct{}) tool.Tool {
	return tool.New(tool.Spec{Name: "hold", Description: "x", Class: perdure.Idempotent},
		func(ctx context.Context, _ struct{}, _ tool.Env) (string, error) {
			entered <- struct{}{}
			select {
			case <-release:
				return "held", nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})
}
