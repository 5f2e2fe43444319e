package local_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/core"
)

// heard is a model that records its requests.
type heard struct {
	model.Model

	mu       sync.Mutex
	requests []model.Request // guarded by mu
}

func (h *heard) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	h.mu.Lock()
	h.requests = append(h.requests, req)
	h.mu.Unlock()
	return h.Model.Stream(ctx, req)
}

// told returns the definition of a tool in the first request; nil: none.
func (h *heard) told(name string) *model.Tool {
	h.mu.Lock()
	defer h.mu.Unlock()
	tools := h.requests[0].Tools
	i := slices.IndexFunc(tools, func(t model.Tool) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &tools[i]
}

// crowd is n tools with one schema.
func crowd(n int, deferrable tool.Deferrable) []tool.Tool {
	var tools []tool.Tool
	for i := range n {
		spec := tool.Spec{Name: fmt.Sprintf("tool_%02d", i), Description: "One of many.", Class: perdure.Pure, Deferrable: deferrable}
		tools = append(tools, tool.New(spec, func(_ context.Context, in struct {
			Word string `json:"word"`
		}, _ tool.Env) (string, error) {
			return "heard " + in.Word, nil
		}))
	}
	return tools
}

// TestDeferredSchemas is TL37: where there are many tools the model gets shorter definitions, and
// calls are checked against the full ones.
func TestDeferredSchemas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tools    []tool.Tool
		deferred bool
		loader   bool
	}{
		"40 are told whole":            {tools: crowd(40, ""), loader: true},
		"41 are shortened":             {tools: crowd(41, ""), loader: true, deferred: true},
		"41 that are never shortened":  {tools: crowd(41, tool.DeferNever), loader: true},
		"one that always is":           {tools: crowd(1, tool.DeferAlways), loader: true, deferred: true},
		"nobody could load the schema": {tools: crowd(41, "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.loader {
				c.tools = append(c.tools, core.LoadTool())
			}
			asked, s := tellTools(t, c.tools)

			first := asked.told("tool_00")
			if short := !strings.Contains(string(first.Parameters), "word"); short != c.deferred || strings.Contains(first.Description, "load_tool") != c.deferred {
				t.Errorf("got %s %q, want deferred %v", first.Parameters, first.Description, c.deferred)
			}
			if loader := asked.told("load_tool"); (loader != nil) != c.deferred {
				t.Errorf("load_tool offered: %v, want %v", loader != nil, c.deferred)
			}
			results := resultsOf(s)
			if !strings.Contains(results[0], "Invalid arguments for tool_00: /word: is required") || results[1] != `"heard it"` {
				t.Errorf("got %q, want the arguments checked against the whole schema", results)
			}
			if c.deferred && !strings.Contains(results[2], `"word"`) {
				t.Errorf("load_tool returned %s", results[2])
			}
		})
	}
}

// tellTools runs a conversation in which the tools are called.
func tellTools(t *testing.T, tools []tool.Tool) (*heard, *perdure.Session) {
	t.Helper()
	script, err := scripted.Parse("deferred", []byte(`
steps:
  - calls: [{name: tool_00}, {name: tool_00, args: {word: it}}, {name: load_tool, args: {name: tool_00}}]
  - text: done
`))
	if err != nil {
		t.Fatal(err)
	}
	asked := &heard{Model: script}
	cfg := local.Config{Store: memory.New(memory.Config{}), Model: asked, Tools: tool.NewRegistry(tools...)}
	return asked, converse(t, cfg, perdure.Agent{}, "go")
}

func resultsOf(s *perdure.Session) []string {
	var results []string
	for _, m := range s.Transcript {
		for _, p := range m.Parts {
			if p.Result != nil {
				results = append(results, string(p.Result.Result))
			}
		}
	}
	return results
}

// TestHiddenSchemas is TL32 for load_tool: it describes no tool that the session does not have.
func TestHiddenSchemas(t *testing.T) {
	t.Parallel()
	spec := tool.Spec{
		Name: "tool_00", Description: "Nothing can run in the background.", Class: perdure.Pure,
		Hints: tool.Hints{CapabilityID: "background_execution"},
	}
	hidden := tool.New(spec, func(context.Context, struct {
		Word string `json:"word"`
	}, tool.Env) (string, error) {
		return "", nil
	})

	_, s := tellTools(t, append(crowd(42, "")[1:], hidden, core.LoadTool()))

	if got := resultsOf(s)[2]; !strings.Contains(got, "Tool definition not found: tool_00") {
		t.Errorf("load_tool returned %s", got)
	}
}
