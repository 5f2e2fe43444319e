package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/tooltest"
)

// TestMachineIsCleanedUp runs the program: the machine is there while its lease is, and gone after
// the session.
func TestMachineIsCleanedUp(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), t.TempDir(), &out); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "tests: machine, active\nthe session is deleted\nthe machine is gone\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestCleanIsSafe: cleaning again is no error, and a lease with another name removes nothing.
func TestCleanIsSafe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := machines{filepath.Join(dir, "machines")}
	if err := os.MkdirAll(filepath.Join(m.dir, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.Clean(t.Context(), tool.Lease{ExternalID: "a"}, nil); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"..", ".", "", "../machines", "a/b", `a\b`, "/"} {
		if err := m.Clean(t.Context(), tool.Lease{ExternalID: name}, nil); err == nil {
			t.Errorf("%q was cleaned up", name)
		}
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}

// TestCrash kills a runtime at every step around the tool.
func TestCrash(t *testing.T) {
	t.Parallel()
	tooltest.Crash(t, machines{t.TempDir()}.start(), startIn{Purpose: "tests"})
}
