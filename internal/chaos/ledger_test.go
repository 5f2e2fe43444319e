//go:build unix

package chaos

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// openLedger runs a ledger until the test ends.
func openLedger(t *testing.T) (socket, path string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ledger") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	ledger := &Ledger{Path: filepath.Join(dir, "ledger.jsonl"), Socket: filepath.Join(dir, "socket")}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1) // one result
	go func() { ended <- ledger.Run(ctx, func() { close(ready) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	}
	return ledger.Socket, ledger.Path
}

func TestLedgerHasALineBeforeItAnswers(t *testing.T) {
	t.Parallel()
	socket, path := openLedger(t)
	const writers, each = 8, 5
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for range each {
				if err := Enter(t.Context(), socket, Line{Effect: "e", Class: "pure", Key: "k", Call: "call_1", Attempt: 2, PID: 3}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()

	lines, err := ReadLedger(path)

	if err != nil || len(lines) != writers*each {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for _, line := range lines {
		if line.At.IsZero() || line.Key != "k" || line.Call != "call_1" || line.Attempt != 2 || line.PID != 3 {
			t.Fatalf("got %+v", line)
		}
	}
}

func TestLedgerRefuses(t *testing.T) {
	t.Parallel()
	socket, path := openLedger(t)

	err := Enter(t.Context(), socket, Line{Class: "pure"})

	if err == nil || !strings.Contains(err.Error(), "names neither") {
		t.Errorf("a line that says nothing: %v", err)
	}
	if err := Enter(t.Context(), filepath.Join(t.TempDir(), "none"), Line{Effect: "e"}); err == nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no ledger: %v", err)
	}
	if lines, err := ReadLedger(path); len(lines) != 0 || err != nil {
		t.Errorf("got %+v, %v", lines, err)
	}
}

func TestReadEffects(t *testing.T) {
	t.Parallel()
	lines, err := ReadEffects("call_1 key_1\n\n  call_2\n")
	if err != nil || len(lines) != 2 || lines[0] != (Line{Call: "call_1", Key: "key_1"}) || lines[1] != (Line{Call: "call_2"}) {
		t.Errorf("got %+v, %v", lines, err)
	}
	if _, err := ReadEffects("a b c"); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("three words: %v", err)
	}
}
