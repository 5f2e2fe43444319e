package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStart measures a shell script as the program, and checks that each figure has a row.
func TestStart(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "perdure")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho said\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var out, progress strings.Builder
	if err := run(t.Context(), []string{"-runs", "2", "-binary", program}, &out, &progress); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"size 0.0 MB", "perdure session list --help", "× hello", "perdure serve"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
	if cpu, first := medians([]start{{1, 9}, {3, 7}, {2, 8}}); cpu != 2 || first != 8 || ratio(6*time.Second, 2*time.Second) != 3 {
		t.Errorf("medians %v, %v", cpu, first)
	}
	if err := run(t.Context(), []string{"-runs", "0"}, &out, &progress); err == nil {
		t.Error("nothing was measured, and that is no error")
	}
}
