package tool_test

import (
	"context"
	"slices"
	"testing"

	"github.com/perdure/perdure/tool"
)

// TestSources: a capability whose tools come later can be chosen, and only those that are named are
// started and awaited.
func TestSources(t *testing.T) {
	t.Parallel()
	r := registry(t, plain{spec: named("one")})
	var started []string
	never := make(chan struct{})
	for _, name := range []string{"a", "b", "c"} {
		r.Expect(tool.Source{Capability: "mcp_" + name, Name: "Server " + name, Prefix: name + "__", Start: func() <-chan struct{} {
			started = append(started, name)
			return never
		}})
	}

	got := collect(t, r, nil, tool.Choice{Capabilities: []string{"mcp_a"}, Tools: []string{"one", "b__x"}})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r.Await(ended, []string{"mcp_a"}, []string{"b__x", "one"})

	checkNames(t, "tools", got.Registry.Names(), "one")
	checkNames(t, "active", got.Active, "mcp_a")
	if !slices.Equal(started, []string{"a", "b"}) {
		t.Errorf("started %v", started)
	}
	if s, ok := r.Expects("c__x"); !ok || s.Name != "Server c" {
		t.Errorf("c__x: %v", ok)
	}
	if _, ok := r.SourceOf("mcp_d"); ok || r.Has("a__x") {
		t.Error("a source that nobody declared")
	}
}
