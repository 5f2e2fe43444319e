package agent_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
)

func anyOverlay() *rapid.Generator[agent.Overlay] {
	return rapid.Custom(func(t *rapid.T) agent.Overlay {
		words := func(label string, of ...string) []string {
			return rapid.SliceOfN(rapid.SampledFrom(of), 0, 3).Draw(t, label)
		}
		word := func(label string, of ...string) string { return rapid.SampledFrom(append(of, "")).Draw(t, label) }
		flag := func(label string) *bool {
			return rapid.SampledFrom([]*bool{nil, ptr(true), ptr(false)}).Draw(t, label)
		}
		limit := func(label string) agent.Limit {
			n := rapid.SampledFrom([]int{0, 0, 1, 3, 31, 32, 33, 1000})
			return agent.Limit{Value: n.Draw(t, label), Hard: n.Draw(t, label+" hard")}
		}
		o := agent.Overlay{
			Description: word("description", "reads", "writes"), SystemPrompt: word("prompt", "one", "two\n\nlines"), Capabilities: words("capabilities", "a", "b", "c"), Tools: words("tools", "x", "y", agent.AllTools),
			Model:         word("name", "openai:a", "openai:b"),
			DefaultModel:  perdure.ModelID(word("model", "model_"+strings.Repeat("1", 32), "model_"+strings.Repeat("2", 32))),
			MaxIterations: limit("iterations"), ParallelToolCalls: flag("parallel"), Background: flag("background"),
			SoftBudgetMS: rapid.SampledFrom([]int64{0, -1, 5}).Draw(t, "soft"),
			Permissions: rapid.SliceOfN(rapid.SampledFrom([]perdure.PermissionRule{
				{Kind: "secret.use", Target: "A", Decision: perdure.Allow}, {Kind: "secret.use", Target: "A", Decision: perdure.Deny}, {Kind: "tool", Target: "*", Decision: perdure.Ask},
			}), 0, 3).Draw(t, "permissions"),
			Limits: agent.Limits{
				ContextTokens: limit("tokens"), ParallelCalls: limit("calls"), Continuations: limit("continuations"), SealAfter: limit("seal"),
				AgentLimits: perdure.AgentLimits{
					SlotsPerSession: rapid.SampledFrom([]int{0, 1, 5}).Draw(t, "slots"),
					SoftBudgetsMS:   rapid.MapOfN(rapid.SampledFrom([]string{"x", "y"}), rapid.SampledFrom([]int64{1, 7}), 0, 2).Draw(t, "budgets"),
				},
			},
			Approvals: agent.Approvals{AskEffects: flag("ask"), Hard: rapid.Bool().Draw(t, "ask hard")}, Summarise: flag("summarise"), AwaitConnections: flag("await"),
			Recovery: perdure.RecoveryMode(word("recovery", "continue", "finalize")), DryRun: rapid.Bool().Draw(t, "dry"),
			Locale: word("locale", "de", "en"), Timezone: word("zone", "UTC", "Europe/Berlin"),
			Metadata: rapid.MapOfN(rapid.SampledFrom([]string{"k", "l"}), rapid.SampledFrom([]string{"1", "2"}), 0, 2).Draw(t, "metadata"),
		}
		for i, name := range words("files", "/a", "/a/", "/b/./c", "/b/c") {
			o.InitialFiles = append(o.InitialFiles, agent.File{Path: name, Content: fmt.Sprint(o.Locale, i), IsReadOnly: i == 0})
		}
		hosts := []string{"a.test", "*.a.test", "x.a.test", "b.test", "https://a.test/v1"}
		for range rapid.IntRange(0, 2).Draw(t, "lists") {
			o.NetworkAccess = append(o.NetworkAccess, perdure.NetworkList{Allowed: words("allowed", hosts...), Blocked: words("blocked", hosts...)})
		}
		return o
	})
}

func ptr[T any](v T) *T { return &v }

func same(t interface {
	Helper()
	Fatalf(string, ...any)
}, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// TestFoldLaws: a chain can be folded in parts, and an empty layer changes nothing (N8).
func TestFoldLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := anyOverlay().Draw(t, "a"), anyOverlay().Draw(t, "b"), anyOverlay().Draw(t, "c")
		all := agent.Fold(a, b, c)

		same(t, "the last two first", agent.Fold(a, agent.Fold(b, c)), all)
		same(t, "the first two first", agent.Fold(agent.Fold(a, b), c), all)
		same(t, "nothing before", agent.Fold(agent.Overlay{}, all), all)
		same(t, "nothing after", agent.Fold(all, agent.Overlay{}), all)
		if err := all.Check(); err != nil {
			t.Fatalf("sound layers fold into an unsound one: %v", err)
		}
	})
}

// TestFoldNeverLoosens: no layer takes away what one above it made hard, blocked or dry (N8, NL2).
func TestFoldNeverLoosens(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		above, below := anyOverlay().Draw(t, "above"), anyOverlay().Draw(t, "below")
		url := "https://" + rapid.SampledFrom([]string{"a.test/v1/x", "x.a.test/", "b.test/"}).Draw(t, "url")
		parent, err := agent.Resolve(above)
		if err != nil {
			t.Fatal(err)
		}
		child, err := agent.Resolve(agent.Fold(above, below))
		if err != nil {
			t.Fatal(err)
		}

		before, _ := parent.Network.Permits(url)
		after, _ := child.Network.Permits(url)
		if after && !before {
			t.Fatalf("%v reaches %s, which %v does not", child.Network, url, parent.Network)
		}
		if above.DryRun && !child.DryRun || above.Approvals.Hard && !child.AskEffects {
			t.Fatalf("got dry run %t, asking %t below %+v", child.DryRun, child.AskEffects, above)
		}
		for _, l := range []struct {
			name string
			hard int
			got  int
		}{
			{"iterations", above.MaxIterations.Hard, or(child.MaxIterations, perdure.DefaultMaxIterations)},
			{"calls", above.Limits.ParallelCalls.Hard, or(child.MaxParallelCalls, perdure.DefaultParallelCalls)},
			{"continuations", above.Limits.Continuations.Hard, or(child.MaxContinuations, perdure.DefaultMaxContinuations)},
			{"tokens", above.Limits.ContextTokens.Hard, or(child.MaxContextTokens, 1<<30)},
			{"seal", above.Limits.SealAfter.Hard, or(child.SealAfter, 1<<30)},
		} {
			if l.hard > 0 && l.got > l.hard {
				t.Fatalf("%s: got %d, over the hard %d", l.name, l.got, l.hard)
			}
		}
	})
}

// TestHardStays: lower layers cannot loosen a hard limit.
func TestHardStays(t *testing.T) {
	t.Parallel()
	above := agent.Overlay{
		MaxIterations: agent.Limit{Hard: 1}, NetworkAccess: []perdure.NetworkList{{}, {Blocked: []string{"a.test"}}}, Approvals: agent.Approvals{Hard: true},
	}
	for name, below := range map[string]agent.Overlay{
		"nothing":                {},
		"a higher ceiling":       {MaxIterations: agent.Limit{Value: 2, Hard: 3}},
		"a list of all hosts":    {NetworkAccess: []perdure.NetworkList{{}}},
		"a host that is allowed": {NetworkAccess: []perdure.NetworkList{{Allowed: []string{"a.test"}}}},
		"no questions":           {Approvals: agent.Approvals{AskEffects: ptr(false)}},
	} {
		got, err := agent.Resolve(agent.Fold(above, below))
		if err != nil {
			t.Fatal(err)
		}
		if reaches, _ := got.Network.Permits("https://a.test/v1/x"); got.MaxIterations != 1 || reaches || !got.AskEffects {
			t.Errorf("%s: got %d iterations, reaches the host %t, asks %t", name, got.MaxIterations, reaches, got.AskEffects)
		}
	}
}

func or(n, fallback int) int {
	if n == 0 {
		return fallback
	}
	return n
}

// TestFoldFields holds the table of N9, and that no field is forgotten.
func TestFoldFields(t *testing.T) {
	t.Parallel()
	parent := agent.Overlay{
		SystemPrompt: "Be kind.", Capabilities: []string{"a", "b"}, Tools: []string{"x"},
		InitialFiles:  []agent.File{{Path: "/a", Content: "old"}, {Path: "/b", Content: "b"}},
		NetworkAccess: []perdure.NetworkList{{Allowed: []string{"*.a.test"}}}, DefaultModel: "model_1", MaxIterations: agent.Limit{Value: 9, Hard: 10},
		ParallelToolCalls: ptr(true), Metadata: map[string]string{"k": "1", "l": "1"}, Locale: "de",
	}
	child := agent.Overlay{
		SystemPrompt: "Be brief.", Capabilities: []string{"b", "c"}, Tools: []string{"y", "x"}, InitialFiles: []agent.File{{Path: "/a/", Content: "new"}},
		NetworkAccess: []perdure.NetworkList{{Allowed: []string{"x.a.test", "b.test"}}}, MaxIterations: agent.Limit{Value: 50}, ParallelToolCalls: ptr(false),
		Metadata: map[string]string{"k": "2"},
	}

	got, err := agent.Resolve(agent.Fold(parent, child, agent.Overlay{DefaultModel: "model_" + perdure.ModelID(strings.Repeat("1", 32))}))
	if err != nil {
		t.Fatal(err)
	}

	same(t, "agent", got, perdure.Agent{
		Instructions: "Be kind.\n\nBe brief.", Capabilities: []string{"a", "b", "c"}, Tools: []string{"x", "y"}, Model: "model_" + strings.Repeat("1", 32),
		MaxIterations: 10, SerialCalls: true, Locale: "de", Metadata: map[string]string{"k": "2", "l": "1"}, Network: perdure.NetworkList{Allowed: []string{"x.a.test"}},
	})
	files := agent.Fold(parent, child).InitialFiles
	same(t, "files", files, []agent.File{{Path: "/a/", Content: "new"}, {Path: "/b", Content: "b"}})
	same(t, "parent", parent.InitialFiles[0].Content, "old")

	var full agent.Overlay
	for i := range reflect.TypeFor[agent.Overlay]().NumField() {
		one := agent.Overlay{}
		fill(reflect.ValueOf(&one).Elem().Field(i))
		name := reflect.TypeFor[agent.Overlay]().Field(i).Name
		if reflect.DeepEqual(agent.Fold(one), full) || reflect.DeepEqual(agent.Fold(one, full), full) {
			t.Errorf("a fold forgets %s", name)
		}
	}
}

// fill sets a field to anything that is not its zero value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("/text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("k"), value)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	}
}

// TestFoldCopies: changing the result of a fold does not change its inputs.
func TestFoldCopies(t *testing.T) {
	t.Parallel()
	of := func() agent.Overlay {
		var o agent.Overlay
		fill(reflect.ValueOf(&o).Elem())
		return o
	}
	given := of()

	got := agent.Fold(given)
	got.InitialFiles[0].Path, got.NetworkAccess[0].Allowed[0], got.Tools[0], got.Metadata["k"], *got.Background = "z", "z", "z", "z", true
	got.Capabilities[0], got.NetworkAccess[0].Blocked[0], got.Limits.SoftBudgetsMS["k"] = "z", "z", 9

	same(t, "given", given, of())
}

// TestTools: none, all, or those that are named.
func TestTools(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		named []string
		want  []string
	}{{nil, []string{}}, {[]string{"x"}, []string{"x"}}, {[]string{"x", agent.AllTools}, nil}} {
		got, err := agent.Resolve(agent.Overlay{Tools: c.named})
		if err != nil || !reflect.DeepEqual(got.Tools, c.want) {
			t.Errorf("%v: got %#v, %v, want %#v", c.named, got.Tools, err, c.want)
		}
	}
}

// TestCheck: each fault is found and reported.
func TestCheck(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]agent.Overlay{
		"description":                          {Description: strings.Repeat("x", 1025)},
		"system_prompt":                        {SystemPrompt: strings.Repeat("x", 300<<10)},
		"tools: one of them is empty":          {Tools: []string{""}},
		"capabilities: one of them":            {Capabilities: []string{"a", ""}},
		"network_access 2":                     {NetworkAccess: []perdure.NetworkList{{}, {Allowed: []string{"a b"}}}},
		"model id":                             {DefaultModel: "gpt"},
		"max_iterations: -1":                   {MaxIterations: agent.Limit{Value: -1}},
		"limits.seal_after":                    {Limits: agent.Limits{SealAfter: agent.Limit{Hard: -2}}},
		"limits.slots_per_session":             {Limits: agent.Limits{AgentLimits: perdure.AgentLimits{SlotsPerSession: -1}}},
		"soft_budget_ms":                       {SoftBudgetMS: -5},
		`recovery "never"`:                     {Recovery: "never"},
		`initial file "a"`:                     {InitialFiles: []agent.File{{Path: "a"}}},
		`initial file "/"`:                     {InitialFiles: []agent.File{{Path: "/"}}},
		`initial file "/a/../../b"`:            {InitialFiles: []agent.File{{Path: "/a/../../b"}}},
		`initial file "/\x00"`:                 {InitialFiles: []agent.File{{Path: "/\x00"}}},
		`not "base64"`:                         {InitialFiles: []agent.File{{Path: "/a", Content: "?", Encoding: "base64"}}},
		`not "rot13"`:                          {InitialFiles: []agent.File{{Path: "/a", Encoding: "rot13"}}},
		"initial_files: there are 1 with 1048": {InitialFiles: []agent.File{{Path: "/a", Content: strings.Repeat("x", 10<<20+1)}}},
	} {
		if err := o.Check(); !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an invalid %s", err, want)
		}
		if _, err := agent.Resolve(o); !errors.Is(err, perdure.Invalid) {
			t.Errorf("resolve: got %v, want an invalid %s", err, want)
		}
	}
}
