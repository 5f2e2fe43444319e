package main

import (
	"bytes"
	"os"
	"testing"
)

// The committed guard matches the port and the table.
func TestGuardIsFresh(t *testing.T) {
	t.Parallel()
	want, err := generate("../../../engine", "../operations.txt")
	if err != nil {
		t.Fatal(err)
	}

	got, err := os.ReadFile("../guard_gen.go")

	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("guard_gen.go is stale: run go generate ./internal/access")
	}
}
