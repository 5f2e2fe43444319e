package app

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"

	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/web"
)

// TestNarrations: the sentences of each tool of the program name arguments and fields that it has,
// and a tool that has one sentence has all three.
func TestNarrations(t *testing.T) {
	t.Parallel()
	tools, err := newTools(cli.OpenOptions{}, nil, web.Config{})
	if err != nil {
		t.Fatal(err)
	}
	names := func(schema json.RawMessage) (names []string) {
		var has struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if len(schema) > 0 {
			if err := json.Unmarshal(schema, &has); err != nil {
				t.Fatal(err)
			}
		}
		for name := range has.Properties {
			names = append(names, name)
		}
		return names
	}
	plain := []string{"get_current_time", "echo", "add", "subtract", "multiply", "divide"} // their display names say it all
	values, own := regexp.MustCompile(`\{(result\.)?([a-z_]+)\}`), 0
	for _, name := range tools.Names() {
		one, _ := tools.Get(name)
		spec := one.Spec()
		n := spec.Narration
		if n == (tool.Narration{}) {
			if _, narrates := one.(tool.Narrator); !narrates && !slices.Contains(plain, name) {
				t.Errorf("%s has no sentences", name)
			}
			continue
		}
		if own++; n.Started == "" || n.Completed == "" || n.Failed == "" {
			t.Errorf("%s: %+v is not complete", name, n)
		}
		for phase, text := range map[tool.Phase]string{tool.PhaseStarted: n.Started, tool.PhaseCompleted: n.Completed, tool.PhaseFailed: n.Failed} {
			for _, value := range values.FindAllStringSubmatch(text, -1) {
				from, ofResult := spec.Parameters, value[1] != ""
				if ofResult {
					from = spec.OutputSchema // empty: any
				}
				if ofResult && phase != tool.PhaseCompleted || len(from) > 0 && !slices.Contains(names(from), value[2]) {
					t.Errorf("%s, %s: the tool has no %s", name, phase, value[0])
				}
			}
		}
	}
	if own < 20 {
		t.Errorf("%d tools have sentences", own)
	}
}
