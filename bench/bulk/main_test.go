package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

func TestBulkMeasures(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-tasks", "20", "-dir", t.TempDir()}, &out, io.Discard); err != nil || !strings.Contains(out.String(), "bulk: 20 tasks") {
		t.Errorf("got %q, %v", out.String(), err)
	}
	if err := run(t.Context(), []string{"-tasks", "0"}, io.Discard, io.Discard); err == nil {
		t.Error("no tasks were measured")
	}
}
