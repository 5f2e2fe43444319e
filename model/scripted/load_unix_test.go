//go:build unix

package scripted_test

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model/scripted"
)

// TestLoadOpensNoPipe: opening a pipe would block until another process writes into it.
func TestLoadOpensNoPipe(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}

	for _, path := range []string{pipe, filepath.Dir(pipe)} {
		if _, err := scripted.Load(path); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%s: got %v", path, err)
		}
	}
}
