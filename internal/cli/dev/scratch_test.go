//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package dev

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDeadScratch: a directory is dead when nobody holds its lock. One that is kept, one in use,
// one of a process that has just begun, and one that is a link are not.
func TestDeadScratch(t *testing.T) {
	t.Parallel()
	parent, elsewhere := t.TempDir(), t.TempDir()
	scratch := func(keep bool) *Scratch {
		t.Helper()
		s, err := NewScratch(parent, keep)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	used, ended := scratch(false), scratch(false)
	defer used.Release()
	ended.Release()
	scratch(true)
	if err := os.Mkdir(filepath.Join(parent, scratchPrefix+"begun"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(elsewhere, scratchLock), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(parent, scratchPrefix+"link")); err != nil {
		t.Fatal(err)
	}

	dead := DeadScratch(parent)

	if len(dead) != 1 || dead[0].Dir != ended.Dir {
		t.Fatalf("got %v, want only %s", dead, ended.Dir)
	}
	if again := DeadScratch(parent); len(again) != 0 {
		t.Errorf("a second process got %v, too", again)
	}
	if err := dead[0].Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(ended.Dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", ended.Dir, err)
	}
}
