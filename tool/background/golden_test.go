package background_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGoldenTexts compares all that a model reads of these tools with testdata: prompt,
// descriptions, schemas (BG23).
func TestGoldenTexts(t *testing.T) {
	t.Parallel()
	var prompt, definitions txtar.Archive
	for _, found := range background.Tools(background.Config{}) {
		spec := found.Spec()
		if spec.Prompt != "" {
			prompt.Files = append(prompt.Files, txtar.File{Name: spec.Name, Data: []byte(spec.Prompt)})
		}
		var schema bytes.Buffer
		if err := json.Indent(&schema, spec.Parameters, "", "  "); err != nil {
			t.Fatal(err)
		}
		definitions.Files = append(definitions.Files,
			txtar.File{Name: spec.Name + ".txt", Data: []byte(spec.DisplayName + "\n\n" + spec.Description)},
			txtar.File{Name: spec.Name + ".json", Data: schema.Bytes()})
	}
	golden(t, "prompt.txtar", prompt)
	golden(t, "definitions.txtar", definitions)
}

func golden(t *testing.T, name string, archive txtar.Archive) {
	t.Helper()
	path := filepath.Join("testdata", name)
	got := txtar.Format(&archive)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), string(want)); diff != "" {
		t.Errorf("%s: got -, want + (rewrite it with go test ./tool/background -update):\n%s", name, diff)
	}
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
