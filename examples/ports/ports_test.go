package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Example runs the program.
func Example() {
	main()
	// Output: Open issues: 3, asked with a token of 16 characters.
}

// TestOutsideModule: a program outside this module can replace a port, with public packages only.
func TestOutsideModule(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	module := strings.Replace(read(filepath.Join(root, "go.mod")), "module github.com/perdure/perdure\n",
		"module example.com/outside\n", 1)
	write("go.mod", module+"\nrequire github.com/perdure/perdure v0.0.0\n\nreplace github.com/perdure/perdure => "+root+"\n")
	write("go.sum", read(filepath.Join(root, "go.sum")))
	write("main.go", read("ports.go"))

	out := filepath.Join(dir, "outside")
	build := exec.Command("go", "build", "-mod=mod", "-o", out, ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOFLAGS=", "GOPROXY=off", "GOWORK=off")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	text, err := exec.Command(out).CombinedOutput()
	if got, want := string(text), "Open issues: 3, asked with a token of 16 characters.\n"; err != nil || got != want {
		t.Errorf("run: %v: got %q, want %q", err, got, want)
	}
}
