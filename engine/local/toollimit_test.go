package local_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/core"
)

// narrow is a model that takes few tools.
type narrow struct {
	heard
	limit int
}

func (n *narrow) MaxTools(perdure.SessionID, string) int { return n.limit }

// TestToolLimit: a model that takes fewer tools than there are finds the others by a search, and a
// tool that it loaded is described from the next step on. A warning names the capability and the
// count (anomalyco/opencode#4909, obot-platform/mcp-catalog#516).
func TestToolLimit(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{10, 128} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			tools := append(core.Tools(), core.LoadTool())
			var many []tool.Tool
			for i := range 200 {
				spec := tool.Spec{Name: fmt.Sprintf("big__tool_%03d", i), Description: fmt.Sprintf("Does job number%03d.", i), Class: perdure.Pure,
					Hints: tool.Hints{CapabilityID: "mcp_big", CapabilityName: "MCP server big"}}
				many = append(many, tool.New(spec, func(_ context.Context, _ struct{}, _ tool.Env) (string, error) { return spec.Name + " ran", nil }))
			}
			script, err := scripted.Parse("limit", []byte(`
steps:
  - calls: [{name: load_tool, args: {query: "number199"}}]
  - calls: [{name: load_tool, args: {name: big__tool_199}}]
  - calls: [{name: big__tool_199}]
  - calls: [{name: big__tool_198}]
  - text: done
`))
			if err != nil {
				t.Fatal(err)
			}
			asked := &narrow{heard: heard{Model: script}, limit: limit}
			registry := tool.NewRegistry(tools...)
			registry.RegisterOptional(many...)
			log := &lockedText{}
			s := converse(t, local.Config{Store: memory.New(memory.Config{}), Model: asked, Tools: registry,
				Log: slog.New(slog.NewTextHandler(log, nil))}, perdure.Agent{Capabilities: []string{"mcp_big"}}, "go")

			for i, want := range []bool{false, false, true, true, true} {
				req := asked.requests[i]
				named := slices.ContainsFunc(req.Tools, func(t model.Tool) bool { return t.Name == "big__tool_199" })
				loads := slices.ContainsFunc(req.Tools, func(t model.Tool) bool { return t.Name == "load_tool" })
				if len(req.Tools) != limit || named != want || !loads || !strings.Contains(req.System, "MCP server big") {
					t.Errorf("request %d: %d tools, with the last one: %v, with load_tool: %v, system %q", i, len(req.Tools), named, loads, req.System)
				}
			}
			results := resultsOf(s)
			if !strings.Contains(results[0], `"name":"big__tool_199"`) || !strings.Contains(results[1], `"parameters"`) ||
				results[2] != `"big__tool_199 ran"` || results[3] != `"big__tool_198 ran"` {
				t.Errorf("got %q", results)
			}
			hidden := len(core.Tools()) + 1 + 200 - limit
			for _, want := range []string{"capability=mcp_big", fmt.Sprintf("limit=%d", limit)} {
				if !strings.Contains(log.String(), want) {
					t.Errorf("the log has no %s: %s", want, log)
				}
			}
			if n := strings.Count(log.String(), "capability=mcp_big"); n != 1 {
				t.Errorf("%d warnings of %d tools: %s", n, hidden, log)
			}
		})
	}
}
