package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// smallDisk mounts a file system of its own, in memory.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("R7: a small file system needs the right to mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// TestReserve fills a disk. An urgent transaction gets the reserved space; others are refused until
// there is space again, and then the space is reserved again (R7).
func TestReserve(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "16m")
	s := withSession(t, sqlite.Config{Dir: filepath.Join(dir, "data"), Reserve: 4 << 20})
	kept := func() bool {
		_, err := os.Stat(filepath.Join(dir, "data", "reserve"))
		return err == nil
	}
	large := func(id string) func(store.Tx) error {
		return func(tx store.Tx) error {
			event := titled(id)
			event.Fact = perdure.SessionUpdated{Title: strings.Repeat("x", 1<<20)}
			return tx.Journal().Append(theSession, []perdure.Event{event})
		}
	}
	if !kept() {
		t.Fatal("nothing is reserved")
	}
	stuffing := filepath.Join(dir, "stuffing")
	file, err := os.Create(stuffing)
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 4096); err == nil; {
		_, err = file.Write(block)
	}
	ctx, urgent := context.Background(), store.Urgent(context.Background())

	err = nil
	for n := 0; err == nil; n++ { // fills the space inside the log
		err = s.InTx(ctx, large(fmt.Sprint("event_", n)))
	}
	if !errors.Is(err, store.Full) || !kept() {
		t.Fatalf("a full disk: got %v, kept: %t", err, kept())
	}
	if err := s.InTx(urgent, large("event_urgent")); err != nil || kept() {
		t.Errorf("an urgent transaction: got %v, kept: %t", err, kept())
	}
	if err := s.InTx(ctx, func(store.Tx) error {
		t.Error("fn ran")
		return nil
	}); !errors.Is(err, store.Full) || store.Broken(err) {
		t.Errorf("another one: got %v", err)
	}
	if err := s.InTx(urgent, large("event_more")); err != nil {
		t.Errorf("one more urgent transaction: got %v", err)
	}

	if err := errors.Join(file.Close(), os.Remove(stuffing)); err != nil {
		t.Fatal(err)
	}
	if err := s.InTx(ctx, large("event_after")); err != nil || !kept() {
		t.Errorf("with space again: got %v, kept: %t", err, kept())
	}
}

// TestReserveCutsTheLog fills a disk with the database's own log, which keeps its length when it is
// restarted. Once space is short the log is truncated, and the disk recovers without help (R7).
func TestReserveCutsTheLog(t *testing.T) {
	t.Parallel()
	data := filepath.Join(smallDisk(t, "20m"), "data")
	s := withSession(t, sqlite.Config{Dir: data, Reserve: 4 << 20})
	kept := func() bool {
		_, err := os.Stat(filepath.Join(data, "reserve"))
		return err == nil
	}
	times := 0
	again := func(tx store.Tx) error {
		times++ // unchanged pages are not written
		return tx.Sessions().Update(theSession, strings.Repeat(string(rune('a'+times%2)), 1<<20), perdure.SessionIdle)
	}
	ctx := context.Background()

	var err error
	for err == nil {
		err = s.InTx(ctx, again)
	}
	log, found := os.Stat(filepath.Join(data, "perdure.db-wal"))
	if !errors.Is(err, store.Full) || !kept() || found != nil || log.Size() < 8<<20 {
		t.Fatalf("a disk full of log: got %v, kept: %t, log: %v, %v", err, kept(), log.Size(), found)
	}
	for kept() { // until the log has no free space inside
		if err := s.InTx(store.Urgent(ctx), again); err != nil {
			t.Fatalf("an urgent transaction: got %v", err)
		}
	}

	for deadline := time.Now().Add(10 * time.Second); !kept() && time.Now().Before(deadline); {
		if err := s.InTx(ctx, func(store.Tx) error { return nil }); err != nil && !errors.Is(err, store.Full) {
			t.Fatal(err)
		}
	}
	if err := s.InTx(ctx, again); err != nil || !kept() {
		t.Errorf("with the log cut: got %v, kept: %t", err, kept())
	}
}

// TestReserveOnALargePart reserves nothing if that would be most of the disk.
func TestReserveOnALargePart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := withSession(t, sqlite.Config{Dir: dir, Reserve: 1 << 60})

	write(t, s, func(store.Tx) error { return nil })

	if _, err := os.Stat(filepath.Join(dir, "reserve")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
