package local_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/tool"
)

// lateTool is a tool of a capability whose tools come later.
func lateTool() tool.Tool {
	spec := tool.Spec{Name: "late__sum", Description: "A tool of the tests.", Class: perdure.Pure, Hints: tool.Hints{CapabilityID: "mcp_late"}}
	return tool.New(spec, func(context.Context, struct{}, tool.Env) (string, error) { return "done", nil })
}

// TestLateTools: a session that chooses a capability whose tools are not there yet waits for them.
// If they do not come, it is created all the same, and its next step has them when they do.
func TestLateTools(t *testing.T) {
	t.Parallel()
	const script = "steps:\n  - calls: [{name: wake}]\n  - calls: [{name: late__sum}]\n  - {text: done}\n"
	ready := make(chan struct{})
	close(ready)
	for _, test := range []struct {
		name  string
		agent perdure.Agent
		start func(tools *tool.Registry) <-chan struct{}
		told  bool // in the first request
		runs  bool
	}{
		{"they come in time", perdure.Agent{Capabilities: []string{"mcp_late"}}, func(tools *tool.Registry) <-chan struct{} {
			came := make(chan struct{})
			go func() {
				tools.RegisterOptional(lateTool())
				close(came)
			}()
			return came
		}, true, true},
		{"they come later", perdure.Agent{Capabilities: []string{"mcp_late"}}, func(*tool.Registry) <-chan struct{} { return ready }, false, true},
		{"one is named, and comes later", perdure.Agent{Tools: []string{"wake", "late__sum"}}, func(*tool.Registry) <-chan struct{} { return ready }, false, true},
		{"nobody wants them", perdure.Agent{}, nil, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var starts atomic.Int64
			h := furnish(t, script, func(cfg *local.Config) {
				tools := cfg.Tools
				cfg.Catalogue.Capabilities = nil
				tools.Register(tool.New(tool.Spec{Name: "wake", Description: "Lets them come.", Class: perdure.Pure}, func(context.Context, struct{}, tool.Env) (string, error) {
					tools.RegisterOptional(lateTool())
					return "awake", nil
				}))
				tools.Expect(tool.Source{Capability: "mcp_late", Name: "Late", Prefix: "late__", Start: func() <-chan struct{} {
					starts.Add(1)
					return test.start(tools)
				}})
			})
			id := core.NewID[perdure.SessionID]()
			if _, err := h.Sessions().CreateAs(t.Context(), id, test.agent); err != nil {
				t.Fatal(err)
			}

			last := "nothing ran"
			for _, e := range h.say(t, id) {
				if done, ok := e.Fact.(perdure.ToolCompleted); ok {
					last = done.Result.Error
				}
			}

			told := false
			for _, name := range h.asked.names(0) {
				told = told || name == "late__sum"
			}
			if told != test.told || (last == "") != test.runs || (starts.Load() > 0) != (test.start != nil) {
				t.Errorf("told %v, %d starts, the call answered %q", told, starts.Load(), last)
			}
		})
	}
}
