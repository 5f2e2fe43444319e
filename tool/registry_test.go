package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/core"
)

// The first three subtests pin prior-art/000.
func TestRegistry(t *testing.T) {
	t.Parallel()

	t.Run("counts, has, definitions", func(t *testing.T) {
		var r tool.Registry
		r.Register(core.GetCurrentTime())
		r.Register(core.Echo())

		if r.Len() != 2 || !r.Has("get_current_time") || !r.Has("echo") || r.Has("nonexistent") || len(r.Definitions()) != 2 {
			t.Errorf("%d tools: %v", r.Len(), r.Names())
		}
	})
	t.Run("builder", func(t *testing.T) {
		r, err := tool.Builder{}.Tool(core.GetCurrentTime()).Tool(core.Echo()).Build()

		if err != nil || r.Len() != 2 {
			t.Errorf("%d tools, %v", r.Len(), err)
		}
	})
	t.Run("definition", func(t *testing.T) {
		d := tool.DefinitionOf(core.GetCurrentTime())

		if d.Type != "builtin" || d.Name != "get_current_time" || d.DisplayName != "Get Current Time" || d.Policy != "auto" {
			t.Errorf("%+v", d)
		}
	})
	t.Run("replaces by name and keeps the place", func(t *testing.T) {
		r := registry(t, plain{spec: named("a")}, plain{spec: named("b")})
		other := named("a")
		other.DisplayName = "Other"

		r.Register(plain{spec: other})

		if got, _ := r.Get("a"); got.Spec().DisplayName != "Other" || !slices.Equal(r.Names(), []string{"a", "b"}) {
			t.Errorf("%v %+v", r.Names(), got)
		}
	})
	t.Run("unregister returns what was there", func(t *testing.T) {
		r := registry(t, plain{spec: named("a")}, plain{spec: named("b")})

		removed, was := r.Unregister("a")
		_, again := r.Unregister("a")

		if !was || removed.Spec().Name != "a" || again || !slices.Equal(r.Names(), []string{"b"}) {
			t.Errorf("%v %v %v", was, again, r.Names())
		}
	})
	t.Run("clear", func(t *testing.T) {
		r := registry(t, plain{spec: named("a")})

		r.Clear()

		if !r.IsEmpty() || r.Has("a") || len(r.Definitions()) != 0 {
			t.Errorf("left: %v", r.Names())
		}
	})
	t.Run("a snapshot does not change", func(t *testing.T) {
		r := registry(t, plain{spec: named("a")})

		snapshot := r.Snapshot()
		r.Register(plain{spec: named("b")})
		r.Unregister("a")

		if !slices.Equal(snapshot.Names(), []string{"a"}) {
			t.Errorf("snapshot has %v", snapshot.Names())
		}
	})
}

// TestNamesAreUnique: a registry never has two tools of one name, whatever their specs say.
func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	t.Run("the same tool twice is one tool", func(t *testing.T) {
		echo := core.Echo()
		r, err := tool.Builder{}.Tool(echo, echo).Build()

		if err != nil || r.Len() != 1 {
			t.Errorf("%d tools, %v", r.Len(), err)
		}
	})
	t.Run("two tools with one name and one spec are refused", func(t *testing.T) {
		say := func(text string) tool.Tool {
			return tool.Func("say", "Says it.", perdure.Pure, func(context.Context, struct{}) (string, error) { return text, nil })
		}
		r, err := tool.Builder{}.Tool(say("one"), say("two")).Build()

		if err == nil || !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), `"say"`) || r.Len() != 1 {
			t.Errorf("%d tools, %v", r.Len(), err)
		}
	})
}

func TestRegistryRefuses(t *testing.T) {
	t.Parallel()
	with := func(change func(*tool.Spec)) tool.Tool {
		spec := named("probe")
		change(&spec)
		return plain{spec: spec}
	}
	for _, test := range []struct {
		name string
		tool tool.Tool
		want string
	}{
		{"nil", nil, "nil"},
		{"a nil pointer", (*plain)(nil), "Spec panicked"},
		{"a bad name", with(func(s *tool.Spec) { s.Name = "two words" }), "the name must match"},
		{"a long name", with(func(s *tool.Spec) { s.Name = strings.Repeat("a", 65) }), "the name must match"},
		{"no description", with(func(s *tool.Spec) { s.Description = " \n" }), "no description"},
		{"an unknown class", with(func(s *tool.Spec) { s.Class = "safe" }), "no effect class"},
		{"an unknown policy", with(func(s *tool.Spec) { s.Policy = "ask" }), "unknown policy"},
		{"an unknown deferrable", with(func(s *tool.Spec) { s.Deferrable = "maybe" }), "unknown deferrable"},
		{"a soft budget at the deadline", with(func(s *tool.Spec) { s.SoftBudget, s.Deadline = time.Minute, time.Minute }), "must be below the deadline"},
		{"a soft budget over the default deadline", with(func(s *tool.Spec) { s.SoftBudget = 3 * time.Hour }), "must be below the deadline"},
		{"a negative soft budget that is not Never", with(func(s *tool.Spec) { s.SoftBudget = -time.Second }), "negative soft budget"},
		{"a negative deadline", with(func(s *tool.Spec) { s.Deadline = -1 }), "negative deadline"},
		{"a negative stall timeout", with(func(s *tool.Spec) { s.Stall = -1 }), "negative stall"},
		{"a schema that is no JSON", withSchema(`{`), "parameters:"},
		{"a bad output schema", with(func(s *tool.Spec) { s.OutputSchema = []byte(`{"type":7}`) }), "output schema:"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := tool.NewRegistry(test.tool)

			if err := r.Err(); !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want Invalid with %q", err, test.want)
			}
			if !r.IsEmpty() {
				t.Error("the refused tool is in the registry")
			}
		})
	}

	t.Run("a second tool of the same name", func(t *testing.T) {
		other := named("a")
		other.DisplayName = "Other"

		r := tool.NewRegistry(plain{spec: named("a")}, plain{spec: other})

		if got, _ := r.Get("a"); !errors.Is(r.Err(), perdure.Invalid) || got.Spec().DisplayName != "" {
			t.Errorf("got %v, %v", got, r.Err())
		}
	})
	t.Run("all at once", func(t *testing.T) {
		r := tool.NewRegistry(plain{}, plain{spec: named("fine")}, plain{spec: named("bad name")})

		if text := r.Err().Error(); strings.Count(text, "invalid tool") != 2 || r.Len() != 1 {
			t.Errorf("%d tools; %s", r.Len(), text)
		}
	})
	t.Run("nothing: a short deadline without a soft budget", func(t *testing.T) {
		if err := tool.NewRegistry(with(func(s *tool.Spec) { s.Deadline = time.Second })).Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestNewRefusesNoClass(t *testing.T) {
	t.Parallel()
	spec := named("probe")
	spec.Class = ""

	r := tool.NewRegistry(tool.New(spec, echo))

	if err := r.Err(); !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), "no effect class") || r.Has("probe") {
		t.Errorf("got %v", err)
	}
}

func TestBackgroundHintNeedsExecutor(t *testing.T) {
	t.Parallel()
	spec := func(hint *bool) tool.Spec {
		s := named("probe")
		s.Hints.SupportsBackground = hint
		return s
	}
	for _, test := range []struct {
		name    string
		tool    tool.Tool
		refused bool
		hint    *bool // of the definition
	}{
		{"hint without executor", plain{spec: spec(ptr(true))}, true, nil},
		{"executor that is denied", runner{plain{spec: spec(ptr(false))}}, true, nil},
		{"executor with hint", runner{plain{spec: spec(ptr(true))}}, false, ptr(true)},
		{"executor alone gives the hint", runner{plain{spec: spec(nil)}}, false, ptr(true)},
		{"neither", plain{spec: spec(nil)}, false, nil},
		{"a foreign hint without executor", tool.Adapt(spec(ptr(true)), plain{}.Run), false, ptr(true)},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := tool.NewRegistry(test.tool)

			if refused := errors.Is(r.Err(), perdure.Invalid); refused != test.refused {
				t.Fatalf("got %v, want refused %v", r.Err(), test.refused)
			}
			if !test.refused {
				if diff := cmp.Diff(test.hint, r.Definitions()[0].Hints.SupportsBackground); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// TestOffered: an optional tool is registered and not a default (TL30).
func TestOffered(t *testing.T) {
	t.Parallel()
	r := registry(t, plain{spec: named("a")})
	r.RegisterOptional(plain{spec: named("b")}, plain{spec: named("a")})
	copied := r.Snapshot()

	if !slices.Equal(copied.Names(), []string{"a", "b"}) || !slices.Equal(copied.Defaults(), []string{"a"}) || !copied.Optional("b") || copied.Optional("c") {
		t.Errorf("%v, by default %v", copied.Names(), copied.Defaults())
	}
	r.Register(plain{spec: named("b")})
	if r.Optional("b") || r.Err() != nil {
		t.Errorf("it was registered, and must be chosen: %v", r.Err())
	}
}

func TestVisibleToolsFilter(t *testing.T) {
	t.Parallel()
	r := registry(t, plain{spec: named("a")}, plain{spec: named("b")}, plain{spec: named("c")})
	for _, test := range []struct {
		name    string
		env     tool.Env
		visible []string
		sees    map[string]bool
	}{
		{"all", tool.Env{Registry: r}, []string{"a", "b", "c"}, map[string]bool{"a": true, "nonexistent": false}},
		{"some", tool.Env{Registry: r, Visible: []string{"c", "a", "nonexistent"}}, []string{"a", "c"}, map[string]bool{"a": true, "b": false, "nonexistent": false}},
		{"none", tool.Env{Registry: r, Visible: []string{}}, nil, map[string]bool{"a": false}},
		{"no registry", tool.Env{}, nil, map[string]bool{"a": false}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var names []string
			for _, d := range test.env.VisibleDefinitions() {
				names = append(names, d.Name)
			}

			if diff := cmp.Diff(test.visible, names); diff != "" {
				t.Error(diff)
			}
			for name, want := range test.sees {
				if got := test.env.CanSee(name); got != want {
					t.Errorf("sees %s: %v", name, got)
				}
			}
		})
	}
}

func TestRegistryConcurrently(t *testing.T) {
	t.Parallel()
	r := registry(t, plain{spec: named("a")})
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			name := fmt.Sprintf("tool_%d", i)
			r.Register(plain{spec: named(name)})
			_, _ = r.Get("a")
			_ = r.Snapshot().Definitions()
			_ = r.Validate("a", []byte(`{}`))
			r.Unregister(name)
		})
	}

	running.Wait()

	if !slices.Equal(r.Names(), []string{"a"}) {
		t.Errorf("left: %v", r.Names())
	}
}

// The names and units of 1.4.
func TestDefinitionJSON(t *testing.T) {
	t.Parallel()
	d := tool.DefinitionOf(runner{plain{spec: tool.Spec{
		Name: "deploy", DisplayName: "Deploy", Description: "Deploys.", Class: perdure.AtMostOnce, Policy: tool.PolicyRequiresApproval,
		Deferrable: tool.DeferNever, Concurrency: "deploys", SoftBudget: tool.Never, Deadline: 90 * time.Second, Stall: 1500 * time.Millisecond,
		OutputSchema: []byte(`true`), Hints: tool.Hints{OpenWorld: ptr(true), NarrationNoun: "site", Metadata: map[string]any{"team": "web"}},
	}}})

	text, err := json.Marshal(d)

	want := `{"type":"builtin","name":"deploy","display_name":"Deploy","description":"Deploys.","parameters":{"type":"object"},"output_schema":true,` +
		`"policy":"requires_approval","deferrable":"never","hints":{"open_world":true,"supports_background":true,"narration_noun":"site",` +
		`"metadata":{"team":"web"},"concurrency_class":"deploys","effect_class":"at_most_once"},"soft_budget":0,"deadline":90,"stall":1.5}`
	if string(text) != want || err != nil {
		t.Errorf("got  %s, %v\nwant %s", text, err, want)
	}
}
