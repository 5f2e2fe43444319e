//go:build soak

package main

import (
	"bytes"
	"maps"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestQuickRun runs the whole program: every figure of the reference page exists with its fields,
// and is a number. It asserts no times.
func TestQuickRun(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bench.json")
	lines := filepath.Join(t.TempDir(), "lines.txt")
	var table, progress bytes.Buffer

	err := measure(t.Context(), []string{"-quick", "-json", path, "-lines", lines, "-dir", t.TempDir()}, &table, &progress)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}

	report := decoded(t, path)
	want := documented(t)
	for name, why := range report.NotMeasured {
		if runtime.GOOS != "linux" && strings.TrimSuffix(name, onPostgres) == "spawn_supervised" {
			delete(want, name) // commands outlive their runtime on Linux only
			continue
		}
		t.Errorf("%s was not measured: %s", name, why)
	}
	got := map[string][]string{}
	for name, figure := range report.Figures {
		got[name] = slices.Sorted(maps.Keys(figure))
		for field, value := range figure {
			if math.IsNaN(value) || math.IsInf(value, 0) {
				t.Errorf("%s %s is %v", name, field, value)
			}
		}
		if figure["n"] < 1 {
			t.Errorf("%s has n %v", name, figure["n"])
		}
		if !strings.Contains(table.String(), strings.TrimSuffix(name, onPostgres)+" ") {
			t.Errorf("the table has no line %s", name)
		}
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("figures, and those of docs/reference/figures.md:\n%s", diff)
	}
	checkGoals(t, report)
	checkLines(t, lines, len(report.Figures))
}
