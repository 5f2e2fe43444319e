//go:build linux

package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// TestFullDisk fills the disk while a call runs (ER8): nothing is acknowledged, nothing is lost,
// and when there is space again the same call settles, having run once.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t)
	open := func(t *testing.T) store.Store {
		t.Helper()
		st, err := sqlite.Open(t.Context(), sqlite.Config{Dir: filepath.Join(dir, "data")})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	setup := enginetest.Setup{Script: `
steps:
  - calls: [{name: hold_charge, args: {text: a}}]
  - text: done
    repeat: true
`}
	w := newWorld(t, setup, open, func(st store.Store) { st.Close() })
	eng := w.Start(t)
	s, err := eng.Sessions().Create(t.Context(), perdure.Agent{})
	if err == nil {
		_, err = eng.Send(t.Context(), s.ID, perdure.Text("go"))
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Entered(t, "hold_charge", 1)

	free := fill(t, dir)
	w.Release("hold_charge")
	// more than the free space of the log
	_, err = eng.Send(t.Context(), s.ID, perdure.Text(strings.Repeat("more", 1<<18)))
	if !errors.Is(err, store.Full) || !strings.Contains(err.Error(), "free space in "+dir) || store.Broken(err) {
		t.Errorf("a message on a full disk: got %v", err)
	}
	free()

	if err := eng.Sessions().WaitIdle(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	calls, err := eng.Calls().List(t.Context(), s.ID)
	if err != nil || len(calls) != 1 || calls[0].State != perdure.CallSettled || len(w.Effects("hold_charge")) != 1 {
		t.Errorf("got %+v, %v, %d effects", calls, err, len(w.Effects("hold_charge")))
	}
	w.Kill(t)
}

// smallDisk mounts a file system of a few megabytes.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("R7: a small file system needs the right to mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// fill uses up the space of a file system; the returned function frees it.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	block := make([]byte, 4096)
	for err == nil {
		_, err = file.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fill: %v", err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
