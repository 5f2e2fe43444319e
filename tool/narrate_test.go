package tool_test

import (
	"testing"

	"github.com/perdure/perdure/tool"
)

// talker returns a fixed narration, or panics.
type talker struct {
	plain
	text string
}

func (n talker) Narrate(tool.Call, tool.Phase, string) string {
	if n.text == "panic" {
		panic("no words")
	}
	return n.text
}

func TestNarrate(t *testing.T) {
	t.Parallel()
	spec := func(display, noun string) tool.Spec {
		s := named("manage_agents")
		s.DisplayName, s.Hints.NarrationNoun = display, noun
		return s
	}
	for _, test := range []struct {
		name  string
		tool  tool.Tool
		args  string
		phase tool.Phase
		want  string
	}{
		{"own words", talker{plain{spec: spec("Agents", "agent")}, "Hiring"}, `{"operation":"create"}`, tool.PhaseStarted, "Hiring"},
		{"no own words", talker{plain{spec: spec("Agents", "")}, ""}, ``, tool.PhaseStarted, "Agents"},
		{"a panic yields the default", talker{plain{spec: spec("Agents", "")}, "panic"}, ``, tool.PhaseStarted, "Agents"},
		{"created", plain{spec: spec("Agents", "agent")}, `{"operation":"create","name":"X"}`, tool.PhaseCompleted, "Created agent: X"},
		{"creating", plain{spec: spec("Agents", "agent")}, `{"operation":"create","name":"X"}`, tool.PhaseStarted, "Creating agent: X"},
		{"failed", plain{spec: spec("Agents", "agent")}, `{"action":"delete","title":"X"}`, tool.PhaseFailed, "Could not delete agent: X"},
		{"an irregular verb", plain{spec: spec("Agents", "agent")}, `{"action":"get","new_name":"X"}`, tool.PhaseCompleted, "Got agent: X"},
		{"a verb in y", plain{spec: spec("Agents", "agent")}, `{"action":"copy"}`, tool.PhaseCompleted, "Copied agent"},
		{"two words", plain{spec: spec("Agents", "of agent")}, `{"action":"update_status"}`, tool.PhaseStarted, "Updating status of agent"},
		{"no verb", plain{spec: spec("Agents", "agent")}, `{"name":"X"}`, tool.PhaseStarted, "Agents"},
		{"a verb without letters", plain{spec: spec("Agents", "agent")}, `{"action":"__"}`, tool.PhaseStarted, "Agents"},
		{"no JSON", plain{spec: spec("Agents", "agent")}, `{`, tool.PhaseStarted, "Agents"},
		{"the name", plain{spec: spec("", "")}, ``, tool.PhaseStarted, "manage_agents"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := tool.Narrate(test.tool, tool.Call{Args: []byte(test.args)}, test.phase, "en")

			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
