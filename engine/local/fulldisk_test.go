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

	disk := smallSpace{dir: dir}
	disk.fill(t)
	w.Release("hold_charge")
	// A message fits into space that the log itself holds or gives back; then there is none left.
	for err == nil {
		_, err = eng.Send(t.Context(), s.ID, perdure.Text(strings.Repeat("more", 1<<18)))
		disk.fill(t)
	}
	if !errors.Is(err, store.Full) || !strings.Contains(err.Error(), "free space in "+dir) || store.Broken(err) {
		t.Errorf("a message on a full disk: got %v", err)
	}
	disk.free(t)

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

// smallSpace is the file system below dir, and the files that take up its space.
type smallSpace struct {
	dir   string
	files []string
}

// fill uses up the space that is left.
func (d *smallSpace) fill(t *testing.T) {
	t.Helper()
	file, err := os.CreateTemp(d.dir, "ballast")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	d.files = append(d.files, file.Name())
	block := make([]byte, 4096)
	for err == nil {
		_, err = file.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fill: %v", err)
	}
}

// free gives back the space that fill used.
func (d *smallSpace) free(t *testing.T) {
	t.Helper()
	for _, path := range d.files {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
