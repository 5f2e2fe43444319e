package main

import (
	"bytes"
	"testing"

	"github.com/perdure/perdure/tool/tooltest"
)

// TestPicturesAreKept runs the program: the model is shown the picture of the user and those of the
// tool, and the session has each content once.
func TestPicturesAreKept(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), t.TempDir(), &out); err != nil {
		t.Fatal(err)
	}
	want := "the model is shown 1\nthe model is shown 2\nthe model is shown 3\n" +
		"stored: image/png, 10 x 30\nstored: image/png, 30 x 30\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// TestCrash kills a runtime at every step around the tool.
func TestCrash(t *testing.T) {
	t.Parallel()
	tooltest.Crash(t, drawChart(), drawIn{Values: []int{1, 2}})
}
