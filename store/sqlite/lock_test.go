package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store/sqlite"
)

func TestLock(t *testing.T) {
	t.Parallel()

	t.Run("names the holder", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		holder := startChild(t, "hold", dir)
		killLater(t, holder.line(t))

		_, err := sqlite.Open(context.Background(), sqlite.Config{Dir: dir})

		host, _ := os.Hostname()
		want := fmt.Sprintf("data directory %s is held by process %d (child on %s, since ", dir, holder.process.Pid,
			host)
		if !errors.Is(err, perdure.Conflict) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a conflict with %q", err, want)
		}
		if !strings.HasSuffix(err.Error(), "); stop it, or use another directory") {
			t.Errorf("got %v, want the next step at its end", err)
		}
	})

	t.Run("is free at once when the holder is killed, even if its child keeps running", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		holder := startChild(t, "hold", dir)
		sleeper := killLater(t, holder.line(t))

		holder.kill()

		open(t, sqlite.Config{Dir: dir})
		if err := sleeper.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("the child of the holder is not running: %v", err)
		}
		if kept := descriptorsIn(t, sleeper.Pid, dir); len(kept) > 0 {
			t.Errorf("the child of the holder kept %v", kept)
		}
	})

	t.Run("holds within one process", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		open(t, sqlite.Config{Dir: dir})

		_, err := sqlite.Open(context.Background(), sqlite.Config{Dir: dir})

		if !errors.Is(err, perdure.Conflict) {
			t.Errorf("got %v, want a conflict", err)
		}
	})

	t.Run("is released by Close", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		first := open(t, sqlite.Config{Dir: dir})

		closed(t, first)

		open(t, sqlite.Config{Dir: dir})
	})

	t.Run("is released by an Open that fails", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		file := filepath.Join(dir, "perdure.db")
		if err := os.WriteFile(file, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := sqlite.Open(context.Background(), sqlite.Config{Dir: dir}); err == nil {
			t.Fatal("a file that is not a database was opened")
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}

		open(t, sqlite.Config{Dir: dir})
	})
}

// killLater ends a process, given by its id, with the test.
func killLater(t *testing.T, pid string) *os.Process {
	t.Helper()
	id, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	process, err := os.FindProcess(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Kill() })
	return process
}

// descriptorsIn returns the files below dir that a process has open. Without /proc it finds none.
func descriptorsIn(t *testing.T, pid int, dir string) []string {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, link := range links {
		if name, err := os.Readlink(link); err == nil && strings.HasPrefix(name, dir) {
			found = append(found, name)
		}
	}
	return found
}
