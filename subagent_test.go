package perdure_test

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/perdure/perdure"
)

// anyAgent draws an agent with rights of all kinds.
func anyAgent(t *rapid.T, name string) perdure.Agent {
	a := perdure.Agent{
		DryRun: rapid.Bool().Draw(t, name+" dry"), DisableBackground: rapid.Bool().Draw(t, name+" no background"),
		AskEffects: rapid.Bool().Draw(t, name+" asks"), ClientTools: rapid.Bool().Draw(t, name+" client"), SerialCalls: rapid.Bool().Draw(t, name+" serial"),
		ClientConnections: rapid.Bool().Draw(t, name+" connects"),
		MaxIterations:     rapid.IntRange(0, 5).Draw(t, name+" iterations"), MaxContinuations: rapid.IntRange(0, 5).Draw(t, name+" continuations"),
		MaxParallelCalls: rapid.IntRange(0, 5).Draw(t, name+" parallel"),
	}
	a.Capabilities = rapid.SliceOfDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), rapid.ID[string]).Draw(t, name+" capabilities")
	if rapid.Bool().Draw(t, name+" narrowed") {
		a.Tools = rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), rapid.ID[string]).Draw(t, name+" tools")
		if a.Tools == nil {
			a.Tools = []string{}
		}
	}
	return a
}

// allows reports whether an agent has a tool.
func allows(a perdure.Agent, tool string) bool {
	return a.Tools == nil || slices.Contains(a.Tools, tool)
}

// within reports whether a limit is not looser than another; 0 is none.
func within(child, parent int) bool { return parent == 0 || child > 0 && child <= parent }

func TestChildRightsShrink(t *testing.T) { // SA6, PR12
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parent := anyAgent(t, "root")
		for range rapid.IntRange(1, 4).Draw(t, "depth") {
			wanted := anyAgent(t, "wanted")
			before, err := json.Marshal(parent)
			if err != nil {
				t.Fatal(err)
			}
			child := parent.Child(wanted)
			if after, _ := json.Marshal(parent); string(after) != string(before) {
				t.Fatalf("the parent went from %s to %s", before, after)
			}
			for _, tool := range []string{"a", "b", "c", "d", "e"} {
				if allows(child, tool) != (allows(parent, tool) && allows(wanted, tool)) {
					t.Fatalf("%s: parent %v, wanted %v, child %v", tool, parent.Tools, wanted.Tools, child.Tools)
				}
			}
			for _, capability := range []string{"x", "y", "z"} {
				both := slices.Contains(parent.Capabilities, capability) && slices.Contains(wanted.Capabilities, capability)
				if slices.Contains(child.Capabilities, capability) != both {
					t.Fatalf("%s: parent %v, wanted %v, child %v", capability, parent.Capabilities, wanted.Capabilities, child.Capabilities)
				}
			}
			switch {
			case !child.Subagent, parent.DryRun && !child.DryRun, parent.AskEffects && !child.AskEffects, parent.DisableBackground && !child.DisableBackground:
				t.Fatalf("parent %+v, child %+v", parent, child)
			case child.ClientTools, child.ClientConnections, parent.SerialCalls && !child.SerialCalls:
				t.Fatalf("parent %+v, child %+v", parent, child)
			case !within(child.MaxIterations, parent.MaxIterations), !within(child.MaxContinuations, parent.MaxContinuations), !within(child.MaxParallelCalls, parent.MaxParallelCalls):
				t.Fatalf("parent %+v, child %+v", parent, child)
			}
			if text, err := json.Marshal(child); err != nil {
				t.Fatal(err)
			} else if stored := (perdure.Agent{}); json.Unmarshal(text, &stored) != nil || (stored.Tools == nil) != (child.Tools == nil) {
				t.Fatalf("stored as %s: no tools became all tools", text)
			}
			parent = child
		}
	})
}

// TestChildNetwork: a subagent reaches nothing that its parent does not (SA6, NL2).
func TestChildNetwork(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parent, wanted := perdure.Agent{Network: anyList().Draw(t, "parent")}, perdure.Agent{Network: anyList().Draw(t, "wanted")}
		u := anyURL().Draw(t, "url")
		ok, _ := parent.Child(wanted).Network.Permits(u)
		above, _ := parent.Network.Permits(u)
		own, _ := wanted.Network.Permits(u)
		if ok && !(above && own) {
			t.Fatalf("the child reaches %s: %v of %v", u, wanted.Network, parent.Network)
		}
	})
}

func TestChildResult(t *testing.T) { // SA12
	t.Parallel()
	for _, c := range []struct {
		answer     string
		structured bool
		want       string
		ok         bool
	}{
		{"two\nlines", false, `"two\nlines"`, true},
		{`{"n":1}`, false, `"{\"n\":1}"`, true},
		{" {\"n\": 1}\n", true, `{"n":1}`, true},
		{"```json\n{\"n\": 1}\n```", true, `{"n":1}`, true},
		{"```\n[1, 2]\n```\n", true, `[1,2]`, true},
		{"it is 1", true, "", false},
		{"", true, "", false},
	} {
		got, ok := perdure.ChildResult(c.answer, c.structured)
		if ok != c.ok || ok && string(got) != c.want {
			t.Errorf("%q: got %s, %t, want %s, %t", c.answer, got, ok, c.want, c.ok)
		}
	}
}
