package backup_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/backup"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

const deleted = perdure.SessionID("session_00000000000070008000000000000099")

// litter adds what a deleted session left to a place, beside the same of one that is there.
func (p place) litter() {
	p.Helper()
	p.write(func(tx store.Tx) error {
		_, _, err := tx.Calls().Claim(perdure.Call{Key: perdure.CallKey{Session: session, Call: "call_1"}, Tool: "bash", Token: "t", Class: perdure.Pure}, nil)
		return err
	})
	p.database(deleted, "main")
	p.blob("an orphan")
	p.file(backup.RunFolder+"/"+runName(perdure.CallKey{Session: session, Call: "call_1"})+"-1/started", "")
	p.file(backup.RunFolder+"/"+runName(perdure.CallKey{Session: deleted, Call: "call_1"})+"-1/started", "")
	p.file(backup.RunFolder+"/"+runName(perdure.CallKey{Session: deleted, Call: "call_2"})+"-3/started", "")
	p.file(backup.BlobFolder+"/ab/x.tmp", "half")
	p.file(backup.HomeFolder+"/"+string(session)+"/home/x", "")
	p.file(backup.HomeFolder+"/"+string(deleted)+"/home/x", "")
}

func runName(key perdure.CallKey) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '-' {
			return '_'
		}
		return r
	}, key.String())
}

// collect collects garbage as if it were a day later, or now.
func (p place) collect(g backup.Garbage, later time.Duration) backup.Collected {
	p.Helper()
	g.Dir, g.RunName = p.dir, runName
	g.Now = func() time.Time { return time.Now().Add(later) }
	g.RemoveHome = os.RemoveAll
	if g.RemoveRun == nil {
		g.RemoveRun = func(_ context.Context, dir string) error { return os.RemoveAll(dir) }
	}
	c, err := g.Collect(context.Background())
	if err != nil {
		p.Fatal(err)
	}
	return c
}

// tree lists the files of a place outside its database.
func (p place) tree() (names []string) {
	p.Helper()
	for _, folder := range []string{backup.SQLFolder, backup.BlobFolder, backup.HomeFolder, backup.RunFolder} {
		err := filepath.WalkDir(filepath.Join(p.dir, folder), func(path string, entry os.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				name, _ := filepath.Rel(p.dir, path)
				names = append(names, filepath.ToSlash(name))
			}
			return err
		})
		if err != nil {
			p.Fatal(err)
		}
	}
	slices.Sort(names)
	return names
}

func TestGarbageGoes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.litter()

	got := p.collect(backup.Garbage{}, 2*time.Hour)

	if diff := cmp.Diff(backup.Collected{SQLFolders: 1, Homes: 1, Runs: 2, Blobs: 1, BlobBytes: 9, Partial: 1}, got); diff != "" {
		t.Errorf("collected (-want +got):\n%s", diff)
	}
	want := []string{
		p.blobName("a picture"), backup.HomeFolder + "/" + string(session) + "/home/x", backup.RunFolder + "/" + runName(perdure.CallKey{Session: session, Call: "call_1"}) + "-1/started",
		backup.SQLFolder + "/" + string(session) + "/main.db",
	}
	if diff := cmp.Diff(want, p.tree()); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if again := p.collect(backup.Garbage{}, 2*time.Hour); !cmp.Equal(again, backup.Collected{}) {
		t.Errorf("again: got %+v, want nothing", again)
	}
	whole(t, p.dir)
}

func TestYoungGarbageStays(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.litter()
	before := p.tree()

	got := p.collect(backup.Garbage{}, 59*time.Minute)

	if diff := cmp.Diff(before, p.tree()); diff != "" || !cmp.Equal(got, backup.Collected{}) {
		t.Errorf("got %+v (-before +after):\n%s", got, diff)
	}
}

func TestDryGarbageStays(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.litter()
	before := p.tree()

	got := p.collect(backup.Garbage{DryRun: true}, 2*time.Hour)

	if diff := cmp.Diff(before, p.tree()); diff != "" || got.Runs != 2 || got.Blobs != 1 {
		t.Errorf("got %+v (-before +after):\n%s", got, diff)
	}
}

// TestLivingRunStays leaves what its remover refuses, and says so.
func TestLivingRunStays(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.litter()
	alive := errors.New("it is running")

	got := p.collect(backup.Garbage{RemoveRun: func(context.Context, string) error { return alive }}, 2*time.Hour)

	if got.Runs != 0 || len(got.Failures) != 2 || !strings.HasSuffix(got.Failures[0], "it is running") {
		t.Errorf("got %+v, want two that are kept", got)
	}
}

func TestVacuum(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(func(tx store.Tx) error {
		_, err := tx.Files().Put(session, store.File{Path: "/large", Content: make([]byte, 4<<20)})
		return err
	})
	p.write(func(tx store.Tx) error { _, err := tx.Files().Remove(session, "/large"); return err })
	g := backup.Garbage{Dir: p.dir, Vacuum: true}
	if _, err := g.Collect(context.Background()); !errors.Is(err, perdure.Conflict) {
		t.Errorf("while it is held: got %v, want a conflict", err)
	}
	p.closeStore()

	got, err := g.Collect(context.Background())

	if err != nil || got.FreedBytes < 4<<20 {
		t.Errorf("got %+v, %v, want 4 MiB less", got, err)
	}
	whole(t, p.dir)
	p.st = p.open(p.dir)
	if found, err := os.Stat(filepath.Join(p.dir, sqlite.DatabaseName)); err != nil || found.Size() > 1<<20 {
		t.Errorf("got %v, %v, want a small file", found, err)
	}
}
