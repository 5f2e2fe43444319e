package main

import (
	"bytes"
	"os"
	"testing"
)

// The committed wrappers match the port.
func TestWrappersAreFresh(t *testing.T) {
	t.Parallel()
	want, err := generate("../..")
	if err != nil {
		t.Fatal(err)
	}

	got, err := os.ReadFile("../wrap_gen.go")

	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("wrap_gen.go is stale: run go generate ./store/faulty")
	}
}
