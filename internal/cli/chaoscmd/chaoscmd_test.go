package chaoscmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAgainHidesThePassword: the printed command that repeats a run has no password of a database.
func TestAgainHidesThePassword(t *testing.T) {
	t.Parallel()
	s := Run{Kills: 3, Sessions: 2, Seed: 1, Faults: []string{"kill"}, Database: "postgres://user:correct-horse@db/name"}

	got := s.repeatCommand()

	if strings.Contains(got, "correct-horse") || !strings.HasSuffix(got, " --faults kill --database URL") {
		t.Errorf("got %q", got)
	}
}

// TestNoPlace: a run that cannot have its own folder creates none in the current one. It is not
// parallel: it changes the current folder.
func TestNoPlace(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	t.Setenv("TMPDIR", filepath.Join(here, "missing"))

	_, err := Run{}.prepare()

	made, readErr := os.ReadDir(here)
	if err == nil || readErr != nil || len(made) > 0 {
		t.Errorf("got %v and %v, %v", err, made, readErr)
	}
}
