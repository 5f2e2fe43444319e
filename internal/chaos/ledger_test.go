//go:build unix

package chaos

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// openLedger runs a ledger until the test ends.
func openLedger(t *testing.T) (addr, path string) {
	t.Helper()
	ledger := &Ledger{Path: filepath.Join(t.TempDir(), "ledger.jsonl")}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1) // one address, one result
	go func() { ended <- ledger.Run(ctx, func(addr string) { ready <- addr }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case addr = <-ready:
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	}
	return addr, ledger.Path
}

func TestLedgerHasALineBeforeItAnswers(t *testing.T) {
	t.Parallel()
	addr, path := openLedger(t)
	const writers, each = 8, 5
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for range each {
				if err := AppendLine(t.Context(), addr, Line{Effect: "e", Class: "pure", Key: "k", Call: "call_1", Attempt: 2, PID: 3}); err != nil {
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
	addr, path := openLedger(t)

	err := AppendLine(t.Context(), addr, Line{Class: "pure"})

	if err == nil || !strings.Contains(err.Error(), "neither an effect nor a call_id") {
		t.Errorf("a line that says nothing: %v", err)
	}
	if err := AppendLine(t.Context(), "127.0.0.1:1", Line{Effect: "e"}); !errors.Is(err, syscall.ECONNREFUSED) {
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
