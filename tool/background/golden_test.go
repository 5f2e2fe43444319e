package background_test

import (
	"bytes"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
	"github.com/perdure/perdure/tool/tooltest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGoldenTexts compares all that a model reads of these tools with testdata: prompt,
// descriptions, schemas (BG23).
func TestGoldenTexts(t *testing.T) {
	t.Parallel()
	tools := background.Tools(background.Config{})
	var prompt txtar.Archive
	for _, found := range tools {
		if spec := found.Spec(); spec.Prompt != "" {
			prompt.Files = append(prompt.Files, txtar.File{Name: spec.Name, Data: []byte(spec.Prompt)})
		}
	}
	tooltest.Golden(t, "prompt.txtar", prompt, *update)
	tooltest.Golden(t, "definitions.txtar", tooltest.Definitions(t, tools...), *update)
}

func TestToolsAreAdmitted(t *testing.T) {
	t.Parallel()
	want := map[string]perdure.EffectClass{
		"spawn_background": perdure.Idempotent, "check_background_tool": perdure.Idempotent, "list_tasks": perdure.Pure,
		"get_task": perdure.Pure, "wait_task": perdure.Pure, "message_task": perdure.Idempotent, "cancel_task": perdure.Idempotent,
	}
	set := tool.NewRegistry(background.Tools(background.Config{})...)
	if err := set.Err(); err != nil || set.Len() != len(want) {
		t.Fatalf("got %v, %v", set.Names(), err)
	}
	for name, class := range want {
		found, ok := set.Get(name)
		if !ok || found.Spec().Class != class || !found.Spec().NeedsEnv {
			t.Errorf("%s: got %+v, want class %s", name, found, class)
		}
	}
}

// TestSoftBudgetDefaults: whatever says nothing detaches after ten minutes, and a tool with a wait
// of its own never does (LN5).
func TestSoftBudgetDefaults(t *testing.T) {
	t.Parallel()
	own := []string{"spawn_background", "check_background_tool", "wait_task"}
	for _, d := range toolbox().Definitions() {
		want := 600.0
		if slices.Contains(own, d.Name) {
			want = 0 // in JSON: never
		}
		if d.SoftBudgetSeconds != want {
			t.Errorf("%s: got a soft budget of %v s, want %v", d.Name, d.SoftBudgetSeconds, want)
		}
	}
	for _, name := range own {
		if found, ok := toolbox().Get(name); !ok || found.Spec().SoftBudget != tool.Never {
			t.Errorf("%s may detach", name)
		}
	}
}

// TestConfigStandsInTheTexts sets other waits and looks for them.
func TestConfigStandsInTheTexts(t *testing.T) {
	t.Parallel()
	set := background.Tools(background.Config{DefaultWait: time.Hour, MaxWait: 7 * time.Second})
	for _, found := range set {
		spec := found.Spec()
		for _, text := range []string{spec.Prompt, spec.Description, string(spec.Parameters)} {
			if bytes.Contains([]byte(text), []byte("_wait}")) || bytes.Contains([]byte(text), []byte("540")) {
				t.Errorf("%s: got %s", spec.Name, text)
			}
		}
		if (spec.Name == check || spec.Name == "wait_task") && !bytes.Contains(spec.Parameters, []byte("Default 7. More than 7 is clamped to 7")) {
			t.Errorf("got %s", spec.Parameters)
		}
	}
}
