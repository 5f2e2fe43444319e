//go:build soak

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure/internal/modproxy"
)

// TestOutsideModule builds the program of the page as the page says, in a module of its own and
// from a module proxy, and kills it at ten random moments.
func TestOutsideModule(t *testing.T) {
	t.Parallel()
	proxy, dir := modproxy.New(t, "../.."), t.TempDir()
	text, err := os.ReadFile("embed.go")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "main.go"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "release")

	proxy.Go(t, dir, nil, "mod", "init", "example.com/release")
	proxy.Go(t, dir, nil, "get", modproxy.Path+"@"+proxy.Version)
	proxy.Go(t, dir, nil, "build", "-o", program, ".")

	survives(t, func(string) *exec.Cmd { return exec.Command(program) })
}
