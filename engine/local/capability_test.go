package local_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/subagent"
)

// names returns the names of the tools in a request.
func (h *heard) names(request int) (names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.requests[request].Tools {
		names = append(names, t.Name)
	}
	return names
}

// TestOfferedToolsAreChosen: a tool that the host only offers is available where the session chose
// its capability or named the tool (TL30, TL32).
func TestOfferedToolsAreChosen(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		agent perdure.Agent
		told  []string
		runs  bool
	}{
		{"nothing chosen", perdure.Agent{}, []string{"reach", "unwanted"}, false},
		{"a capability", perdure.Agent{Capabilities: []string{"maths"}}, []string{"reach", "unwanted", "sum"}, false},
		{"by name", perdure.Agent{Tools: []string{"danger"}}, []string{"danger"}, true},
		{"both", perdure.Agent{Tools: []string{"danger"}, Capabilities: []string{"maths"}}, []string{"danger", "sum"}, true},
		{"none at all", perdure.Agent{Tools: []string{}}, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := furnish(t, "steps:\n  - calls: [{name: danger}]\n  - text: '{{last}}'\n", func(cfg *local.Config) { cfg.Tools.RegisterOptional(plainTool("danger")) })
			id := core.NewID[perdure.SessionID]()
			for range 2 { // the same order is the same session (N5)
				if _, err := h.Sessions().CreateAs(t.Context(), id, test.agent); err != nil {
					t.Fatal(err)
				}
			}

			var last string
			for _, e := range h.say(t, id) {
				if done, ok := e.Fact.(perdure.ToolCompleted); ok {
					last = done.Result.Error
				}
			}

			differ(t, "told", h.asked.names(0), test.told)
			if (last == "") != test.runs {
				t.Errorf("danger answered %q", last)
			}
		})
	}
	t.Run("what is refused", func(t *testing.T) {
		t.Parallel()
		h := furnish(t, "steps: [{text: done}]", nil)
		id := core.NewID[perdure.SessionID]()
		if _, err := h.Sessions().CreateAs(t.Context(), id, perdure.Agent{Capabilities: []string{"maths"}}); err != nil {
			t.Fatal(err)
		}

		_, other := h.Sessions().CreateAs(t.Context(), id, perdure.Agent{})
		_, unknown := h.Sessions().Create(t.Context(), perdure.Agent{Capabilities: []string{"physics"}})

		if !errors.Is(other, perdure.Conflict) || !errors.Is(unknown, perdure.NotFound) {
			t.Errorf("another agent: %v, an unknown capability: %v", other, unknown)
		}
	})
}

// TestChildHasNoMoreThanDefaults: a subagent that the host defines with an optional tool does not
// get it if its parent did not choose it (SA6, TL30).
func TestChildHasNoMoreThanDefaults(t *testing.T) {
	t.Parallel()
	script := `
rules:
  - when: {user_contains: piece}
    text: done
  - when: {user_contains: go, not_called: spawn_subagent}
    calls: [{name: spawn_subagent, args: {name: bold, agent: bold, task: a piece}}]
steps: [{text: done, repeat: true}]
`
	for _, test := range []struct {
		name   string
		parent perdure.Agent
		child  []string
	}{
		{"not chosen", perdure.Agent{}, []string{"reach"}},
		{"chosen", perdure.Agent{Tools: []string{"spawn_subagent", "danger"}}, []string{"danger"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := furnish(t, script, func(cfg *local.Config) {
				cfg.Tools.RegisterOptional(plainTool("danger"))
				for _, t := range subagent.Tools() {
					cfg.Tools.Register(t)
				}
				cfg.Catalogue.Agents = map[string]perdure.Agent{"bold": {Tools: []string{"danger", "reach"}}}
			})
			s, err := h.Sessions().Create(t.Context(), test.parent)
			if err != nil {
				t.Fatal(err)
			}

			h.say(t, s.ID)

			differ(t, "the child was told", h.asked.names(1), test.child)
		})
	}
}

// TestWhatActivatesItselfIsThere: a capability whose condition holds is complete, even if the agent
// names no tools: its prompt without its tools would describe tools that do not exist (TL32, TL34).
func TestWhatActivatesItselfIsThere(t *testing.T) {
	t.Parallel()
	h := furnish(t, "steps: [{text: done, repeat: true}]", func(cfg *local.Config) {
		cfg.Catalogue.Capabilities = append(cfg.Catalogue.Capabilities, tool.Capability{
			ID: "helping", Prompt: "Use helper.", Tools: []tool.Tool{plainTool("helper")}, Activate: func([]tool.Tool) bool { return true },
		})
	})
	ordered := h.start(t, tool.SessionRequest{Overlay: agent.Overlay{Tools: []string{agent.AllTools}}})
	plain, err := h.Sessions().Create(t.Context(), perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}

	h.say(t, ordered.ID)
	h.say(t, plain.ID)

	for n, request := range h.asked.requests {
		if told := slices.Contains(h.asked.names(n), "helper"); !told || !strings.Contains(request.System, "Use helper.") {
			t.Errorf("request %d: has the tool: %t, and the system text %q", n, told, request.System)
		}
	}
}

// TestStartedCallsGoOn: a call that was allowed to start is recovered even if its session could not
// start it any more, because the tool has become optional since (RC13).
func TestStartedCallsGoOn(t *testing.T) {
	t.Parallel()
	model, err := scripted.Parse("go on", []byte("steps:\n  - calls: [{name: danger}]\n  - text: '{{last}}'\n"))
	if err != nil {
		t.Fatal(err)
	}
	st := memory.New(memory.Config{})
	danger := func(run func(context.Context) (string, error)) tool.Tool {
		spec := tool.Spec{Name: "danger", Description: "A tool of the tests.", Class: perdure.Idempotent}
		return tool.New(spec, func(ctx context.Context, _ struct{}, _ tool.Env) (string, error) { return run(ctx) })
	}
	entered := make(chan struct{})
	before := tool.NewRegistry(danger(func(ctx context.Context) (string, error) {
		close(entered)
		<-ctx.Done()
		return "", context.Cause(ctx)
	}))
	after := &tool.Registry{}
	after.RegisterOptional(danger(func(context.Context) (string, error) { return "went on", nil }))
	var id perdure.SessionID
	live := func(tools *tool.Registry, fn func(context.Context, *local.Engine)) {
		eng, err := local.Open(t.Context(), local.Config{Store: st, Model: model, Tools: tools, Timing: local.Timing{Drain: -1}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- eng.Run(ctx) }()
		fn(ctx, eng)
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	live(before, func(ctx context.Context, eng *local.Engine) {
		s, err := eng.Sessions().Create(ctx, perdure.Agent{})
		if id = s.ID; err == nil {
			_, err = eng.Send(ctx, id, perdure.Text("go"))
		}
		if err != nil {
			t.Error(err)
		}
		<-entered
	})

	live(after, func(ctx context.Context, eng *local.Engine) {
		err := eng.Sessions().WaitIdle(ctx, id)
		calls, listed := eng.Calls().List(ctx, id)

		if err := errors.Join(err, listed); err != nil || len(calls) != 1 || !strings.Contains(string(calls[0].Result.Result), "went on") {
			t.Errorf("%+v, %v", calls, err)
		}
	})
}
