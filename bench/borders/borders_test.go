package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure/internal/supervise"
)

func TestMain(m *testing.M) {
	supervise.Entry()
	os.Exit(m.Run())
}

// TestQuickRun checks that each row has numbers, or the reason why it has none. It asserts no
// times.
func TestQuickRun(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "borders.json")
	var out bytes.Buffer

	if err := run(t.Context(), []string{"-n", "2", "-postgres=false", "-json", path}, &out); err != nil {
		t.Fatal(err)
	}

	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var rows []figure
	if err := json.Unmarshal(text, &rows); err != nil || len(rows) != 8 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, f := range rows {
		if f.Why == "" && (f.N == 0 || f.P50 <= 0 || f.P99 < f.P50) {
			t.Errorf("got %+v", f)
		}
	}
	if err := run(t.Context(), []string{"-n", "0"}, &out); err == nil {
		t.Error("no measurement at all is let through")
	}
}
