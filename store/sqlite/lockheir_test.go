//go:build unix

package sqlite

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

// TestLockOfADeadHolder holds the lock with another process recorded as its owner. If that process
// is dead, the lock is held by a forked child before exec, and free in a moment. If it is alive,
// lockDir does not wait (R30, R33).
func TestLockOfADeadHolder(t *testing.T) {
	t.Parallel()
	gone := exec.Command("/bin/true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		pid   int
		waits bool
	}{
		"dead":   {gone.Process.Pid, true},
		"living": {os.Getppid(), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			heir, err := os.OpenFile(filepath.Join(dir, LockName), os.O_RDWR|os.O_CREATE, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			host, _ := os.Hostname()
			text, _ := json.Marshal(Holder{PID: c.pid, Host: host, StartedAt: time.Now(), Program: "perdure"})
			if _, err := heir.Write(text); err != nil {
				t.Fatal(err)
			}
			if err := flock(heir); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(100*time.Millisecond, func() { _ = heir.Close() })

			lock, err := lockDir(dir, time.Now(), "test")

			if c.waits && err != nil || !c.waits && !errors.Is(err, perdure.Conflict) {
				t.Errorf("got %v", err)
			}
			if lock != nil {
				if err := lock.release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestLockOfALook acquires the lock while other processes look whether it is held, which takes a
// shared lock for an instant (R30).
func TestLockOfALook(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	look, err := os.OpenFile(filepath.Join(dir, LockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = syscall.Flock(int(look.Fd()), syscall.LOCK_SH)
	}
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = look.Close() })

	lock, err := lockDir(dir, time.Now(), "test")

	if err != nil {
		t.Fatal(err)
	}
	if err := lock.release(); err != nil {
		t.Error(err)
	}
}

// TestLockIsGivenBackForAll releases the lock while a forked child before exec also holds it. The
// lock is free at once: the recorded owner is alive, so lockDir would not wait for the child (R30).
func TestLockIsGivenBackForAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := lockDir(dir, time.Now(), "test")
	if err != nil {
		t.Fatal(err)
	}
	heir, err := syscall.Dup(int(lock.file.Fd())) // shares the file description, as after a fork
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(heir) }()
	if err := lock.release(); err != nil {
		t.Fatal(err)
	}

	next, err := lockDir(dir, time.Now(), "test")
	if err != nil {
		t.Fatalf("got %v", err)
	}
	if err := next.release(); err != nil {
		t.Error(err)
	}
}
