//go:build soak

package sqlite_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/soak"
	"github.com/perdure/perdure/store/sqlite"
)

// TestR26KillAtEachStatement migrates an empty directory and golden databases (the first and the
// last, or each under SCALE=full), and copies the files before every statement and every commit, as
// a kill there leaves them. Each copy opens, with all its rows, and ends with the newest schema.
func TestR26KillAtEachStatement(t *testing.T) {
	t.Parallel()
	fresh := t.TempDir()
	closed(t, open(t, sqlite.Config{Dir: fresh}))
	want := schema(t, fresh)
	worlds, all := 0, goldens(t)
	if soak.Count(t, "MIGRATIONS", 2, len(all)) < len(all) {
		all = []string{all[0], all[len(all)-1]}
	}
	for _, from := range append([]string{""}, all...) {
		for n, dir := range cuts(t, from) {
			worlds++
			s, err := sqlite.Open(context.Background(), sqlite.Config{Dir: dir})
			if err != nil {
				t.Fatalf("%q, killed before statement %d: %v", from, n+1, err)
			}
			if from != "" {
				checkOld(t, s)
			}
			closed(t, s)
			if diff := cmp.Diff(want, schema(t, dir)); diff != "" {
				t.Fatalf("%q, killed before statement %d: schema (-new +migrated):\n%s", from, n+1, diff)
			}
			sound(t, filepath.Join(dir, "perdure.db"))
		}
	}
	t.Logf("%d copies opened", worlds)
	if worlds < 100 {
		t.Errorf("got %d copies, want one for each statement of each migration", worlds)
	}
}

// TestR26RealKills kills a process in the middle of a migration, at some statements or, under
// SCALE=full, at each.
func TestR26RealKills(t *testing.T) {
	t.Parallel()
	from := "testdata/schema-1.db.gz"
	all := len(cuts(t, from)) - 1 // the last one is after all statements
	step := soak.Count(t, "MIGRATION_STRIDE", max(all/5, 1), 1)
	kills := 0
	for n := 1; n <= all; n += step {
		dir := t.TempDir()
		unpack(t, from, filepath.Join(dir, "perdure.db"))
		cmd := exec.Command(os.Args[0], dir, strconv.Itoa(n))
		cmd.Env, cmd.Stderr = append(os.Environ(), childRole+"=migrate"), os.Stderr
		err := cmd.Run()
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
			t.Fatalf("statement %d of %d: the process was not killed: %v", n, all, err)
		}
		kills++

		s := open(t, sqlite.Config{Dir: dir})
		checkOld(t, s)
		closed(t, s)
		sound(t, filepath.Join(dir, "perdure.db"))
	}
	t.Logf("%d kills among %d statements", kills, all)
}
