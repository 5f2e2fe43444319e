package tool_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/tool"
)

// of is a tool that says to which capability it belongs.
func of(name, capability string) tool.Tool {
	spec := named(name)
	spec.Hints.CapabilityID = capability
	return plain{spec: spec}
}

// has is a condition: a tool of this name was collected.
func has(name string) func([]tool.Tool) bool {
	return func(tools []tool.Tool) bool {
		return slices.ContainsFunc(tools, func(t tool.Tool) bool { return t.Spec().Name == name })
	}
}

func collect(t *testing.T, r *tool.Registry, given []tool.Capability, c tool.Choice) tool.Collection {
	t.Helper()
	got, err := tool.Collect(r, given, c)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func checkNames(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// TestCollect: the definitions for the model and the executable tools come from one pass, in the
// order of registration (TL32).
func TestCollect(t *testing.T) {
	t.Parallel()
	r := registry(t, plain{spec: named("one")}, plain{spec: named("two")}, of("shell", "commands"), plain{spec: named("three")})
	given := []tool.Capability{
		{ID: "late", Order: 2, Prompt: "Late.", Tools: []tool.Tool{plain{spec: named("new")}, plain{spec: named("one")}}, Files: []agent.File{{Path: "/late"}}},
		{ID: "early", Order: 1, Prompt: "Early."},
		{ID: "unwanted", Tools: []tool.Tool{plain{spec: named("other")}}},
	}

	got := collect(t, r, given, tool.Choice{Capabilities: []string{"late", "commands", "early", "late"}, Tools: []string{"three", "three"}})

	checkNames(t, "tools", got.Registry.Names(), "one", "shell", "three", "new")
	checkNames(t, "active", got.Active, "commands", "early", "late")
	checkNames(t, "prompts", got.Prompts, "Early.", "Late.")
	if !reflect.DeepEqual(got.Definitions, got.Registry.Definitions()) || len(got.Definitions) != 4 {
		t.Errorf("definitions: got %v, want those of the registry", got.Definitions)
	}
	if !reflect.DeepEqual(got.Files, []agent.File{{Path: "/late"}}) {
		t.Errorf("files: got %v", got.Files)
	}
	if err := got.Registry.Err(); err != nil {
		t.Error(err)
	}
	checkNames(t, "all tools", collect(t, r, given, tool.Choice{AllTools: true}).Registry.Names(), "one", "two", "shell", "three")
	checkNames(t, "kept out", collect(t, r, given, tool.Choice{AllTools: true, Capabilities: []string{"commands"}, Disabled: []string{"commands"}}).Registry.Names(), "one", "two", "three")
	checkNames(t, "nothing", collect(t, r, given, tool.Choice{}).Registry.Names())
}

// TestCollectBackground: the set is there when some tool has work for it, and never twice (TL33).
func TestCollectBackground(t *testing.T) {
	t.Parallel()
	r := registry(t, plain{spec: named("calm")}, runner{plain{spec: named("long")}}, of("spawn_background", tool.BackgroundCapability),
		of("spawn_subagent", tool.AgentsCapability), of("message_parent", tool.ParentCapability))
	for _, c := range []struct {
		choice tool.Choice
		want   []string
	}{
		{tool.Choice{Tools: []string{"calm"}}, []string{"calm"}},
		{tool.Choice{Tools: []string{"calm", "long"}}, []string{"calm", "long", "spawn_background"}},
		{tool.Choice{Tools: []string{"long"}, Capabilities: []string{tool.BackgroundCapability}}, []string{"long", "spawn_background"}},
		{tool.Choice{Tools: []string{"calm"}, Capabilities: []string{tool.BackgroundCapability}}, []string{"calm", "spawn_background"}},
		{tool.Choice{Tools: []string{"long"}, Disabled: []string{tool.BackgroundCapability}}, []string{"long"}},
		{tool.Choice{Tools: []string{"long"}, Capabilities: []string{tool.BackgroundCapability}, Disabled: []string{tool.BackgroundCapability}}, []string{"long"}},
		{tool.Choice{Tools: []string{"calm"}, Capabilities: []string{tool.AgentsCapability}}, []string{"calm", "spawn_background", "spawn_subagent", "message_parent"}},
	} {
		checkNames(t, "tools", collect(t, r, nil, c.choice).Registry.Names(), c.want...)
	}
}

// TestCollectRounds: a condition sees nothing of its own round, and two rounds must do (TL34).
func TestCollectRounds(t *testing.T) {
	t.Parallel()
	r := registry(t, plain{spec: named("a")})
	step := func(id, after string) tool.Capability {
		return tool.Capability{ID: id, Tools: []tool.Tool{plain{spec: named(id)}}, Activate: has(after)}
	}

	two := collect(t, r, []tool.Capability{step("c", "b"), step("b", "a")}, tool.Choice{AllTools: true})
	checkNames(t, "two rounds", two.Registry.Names(), "a", "b", "c")

	three := []tool.Capability{step("d", "c"), step("c", "b"), step("b", "a")}
	if _, err := tool.Collect(r, three, tool.Choice{AllTools: true}); !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), "[d]") {
		t.Errorf("three rounds: got %v, want an invalid one that names d", err)
	}
	chosen := collect(t, r, three, tool.Choice{AllTools: true, Capabilities: []string{"c"}})
	checkNames(t, "with one chosen", chosen.Registry.Names(), "a", "b", "c", "d")
	off := collect(t, r, three, tool.Choice{AllTools: true, Disabled: []string{"b"}})
	checkNames(t, "with one off", off.Registry.Names(), "a")
}

// TestCollectRefuses: what is not there, and what cannot be.
func TestCollectRefuses(t *testing.T) {
	t.Parallel()
	r := registry(t, plain{spec: named("a")})
	other := named("a")
	other.Description = "Another tool."
	for name, c := range map[string]struct {
		given  []tool.Capability
		choice tool.Choice
		want   error
	}{
		`tool "b"`:       {choice: tool.Choice{Tools: []string{"b"}}, want: perdure.NotFound},
		`capability "b"`: {choice: tool.Choice{Capabilities: []string{"b"}}, want: perdure.NotFound},
		`capability ""`:  {given: []tool.Capability{{}}, want: perdure.Invalid},
		`capability "x"`: {given: []tool.Capability{{ID: "x"}, {ID: "x"}}, want: perdure.Invalid},
		`capability "n"`: {given: []tool.Capability{{ID: "n", Tools: []tool.Tool{nil}}}, want: perdure.Invalid},
		`another tool`: {
			given: []tool.Capability{{ID: "x", Tools: []tool.Tool{plain{spec: other}}}}, choice: tool.Choice{Capabilities: []string{"x"}}, want: perdure.Invalid,
		},
		`without a class`: {
			given: []tool.Capability{{ID: "x", Tools: []tool.Tool{plain{spec: tool.Spec{Name: "y", Description: "d"}}}}}, choice: tool.Choice{Capabilities: []string{"x"}}, want: perdure.Invalid,
		},
	} {
		if _, err := tool.Collect(r, c.given, c.choice); !errors.Is(err, c.want) || !strings.Contains(err.Error(), name) && name != "without a class" {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// TestCollectOnce: whatever is chosen, no tool is there twice, and a definition stands for each
// that can be executed.
func TestCollectOnce(t *testing.T) {
	t.Parallel()
	r := registry(t, plain{spec: named("a")}, runner{plain{spec: named("b")}}, of("c", "k"), of("d", tool.BackgroundCapability))
	given := []tool.Capability{{ID: "x", Tools: []tool.Tool{plain{spec: named("a")}, plain{spec: named("e")}}}, {ID: "y", Tools: []tool.Tool{plain{spec: named("e")}}, Activate: has("c")}}
	rapid.Check(t, func(t *rapid.T) {
		some := func(label string, of ...string) []string {
			return rapid.SliceOfN(rapid.SampledFrom(of), 0, 4).Draw(t, label)
		}
		ids := []string{"x", "y", "k", tool.BackgroundCapability}
		got, err := tool.Collect(r, given, tool.Choice{
			Capabilities: some("capabilities", ids...), Tools: some("tools", "a", "b", "c", "d"), AllTools: rapid.Bool().Draw(t, "all"), Disabled: some("off", ids...),
		})
		if err != nil {
			t.Fatal(err)
		}
		var defined []string
		for _, d := range got.Definitions {
			defined = append(defined, d.Name)
		}
		names := got.Registry.Names()
		if !slices.Equal(defined, names) || len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) {
			t.Fatalf("defined %v, executable %v", defined, names)
		}
	})
}

// TestOwnHooks: a capability's hook looks at its own tools.
func TestOwnHooks(t *testing.T) {
	t.Parallel()
	c := tool.Capability{ID: "x", Tools: []tool.Tool{plain{spec: named("a")}}, Hooks: []tool.Hook{blocking{}}}
	for name, want := range map[string]string{"a": "no", "b": ""} {
		for _, h := range c.ScopedHooks() {
			before, err := h.BeforeTool(t.Context(), tool.Call{Tool: name})
			after, failed := h.AfterTool(t.Context(), tool.Call{Tool: name}, tool.Result{})
			if before.Block != want || after.WithholdLog != (want != "") || err != nil || failed != nil {
				t.Errorf("%s: got %+v, %+v, %v, %v", name, before, after, err, failed)
			}
		}
	}
	if len(c.ScopedHooks()) != 1 {
		t.Error("the hook is gone")
	}
}

// blocking is a hook that says no.
type blocking struct{}

func (blocking) BeforeTool(context.Context, tool.Call) (tool.Before, error) {
	return tool.Before{Block: "no"}, nil
}

func (blocking) AfterTool(context.Context, tool.Call, tool.Result) (tool.After, error) {
	return tool.After{WithholdLog: true}, nil
}
