package dev

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestWatch: a change counts once, when it is complete; a missing file does not count.
func TestWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "agent.yaml"), filepath.Join(dir, "tools")
	write := func(path, text string, at int64) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Unix(at, 0)); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "name: a", 1)
	write(filepath.Join(folder, "main.go"), "package main", 1)
	var w Watch
	w.Add(file, folder, file)
	step := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, w.Changed()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}

	step("nothing")
	write(file, "name: b", 2)
	step("it may still be written")
	write(file, "name: bb", 3)
	step("and is")
	step("complete", file)
	step("reported once")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	step("missing")
	write(file, "name: bb", 3)
	step("back, unchanged")
	step("likewise")

	write(filepath.Join(folder, ".git", "index"), "x", 1)
	write(filepath.Join(folder, "node_modules", "a.js"), "x", 1)
	step("what is no source")
	step("likewise")
	write(filepath.Join(folder, "lib", "b.go"), "package lib", 1)
	step("a new file")
	step("complete", folder)
	if err := os.Remove(filepath.Join(folder, "main.go")); err != nil {
		t.Fatal(err)
	}
	step("a removed file")
	step("complete", folder)

	later := filepath.Join(dir, "script.yaml")
	w.Add(later, file)
	step("a file that does not exist")
	write(later, "steps: []", 1)
	step("it comes")
	step("complete", later)

	if diff := cmp.Diff([]string{folder, file}, ProgramPaths([]string{"go", "run", folder, "--flag", file})); diff != "" {
		t.Error(diff)
	}
}
