package backup_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
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

// TestBackupWithoutAKey asks for a keyring where there is none: no backup says that it has it.
func TestBackupWithoutAKey(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	safe := filepath.Join(t.TempDir(), "safe")
	if err := errors.Join(os.Mkdir(safe, 0o700), os.Remove(filepath.Join(p.dir, backup.KeyringFile))); err != nil {
		t.Fatal(err)
	}

	_, err := backup.Take(context.Background(), backup.Config{Dir: p.dir, To: filepath.Join(safe, "copy"), WithKey: true})

	left, readErr := os.ReadDir(safe)
	if !errors.Is(err, perdure.NotFound) || readErr != nil || len(left) > 0 {
		t.Errorf("got %v, and %v, %v, want not found and nothing", err, left, readErr)
	}
}

// TestBackupAfterAKill copies the database of a session that a kill left in the middle of a
// transaction, as it was before it.
func TestBackupAfterAKill(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.killed()

	to := p.take()

	if n := words(t, filepath.Join(to, filepath.FromSlash(ofSession)), "kept%"); n != 2000 {
		t.Errorf("got %d rows as they were, want 2000", n)
	}
	whole(t, to)
}

// TestVerifyAfterAKill finds nothing wrong with what the next statement rolls back.
func TestVerifyAfterAKill(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.killed()

	whole(t, p.dir)

	if n := words(t, filepath.Join(p.dir, filepath.FromSlash(ofSession)), "kept%"); n != 2000 {
		t.Errorf("got %d rows as they were, want 2000", n)
	}
}

// TestBackupOfADamagedDatabase copies an unreadable database of a session unchanged, and everything
// else normally; the manifest and Verify report it.
func TestBackupOfADamagedDatabase(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(p place){
		"pages":         func(p place) { p.spoil(filepath.FromSlash(ofSession)) },
		"all of it":     func(p place) { p.file(ofSession, strings.Repeat("this is no database. ", 400)) },
		"and a journal": func(p place) { p.spoil(filepath.FromSlash(ofSession)); p.file(ofSession+"-journal", "words") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			damage(p)
			before, err := os.ReadFile(filepath.Join(p.dir, filepath.FromSlash(ofSession)))
			if err != nil {
				t.Fatal(err)
			}

			to := p.take()

			m, err := backup.Read(to)
			if diff := cmp.Diff([]string{ofSession}, m.Damaged); diff != "" || err != nil {
				t.Errorf("%v, damaged (-want +got):\n%s", err, diff)
			}
			rep, err := backup.Verify(context.Background(), to)
			if err != nil || len(rep.Problems) != 1 || !strings.HasPrefix(rep.Problems[0], ofSession+": damaged before the backup") || rep.Sessions != 1 {
				t.Errorf("got %v, %+v, want that one wrong, and the session looked at", err, rep)
			}
			dir := filepath.Join(t.TempDir(), "restored")
			if _, err := backup.Restore(to, dir); err != nil {
				t.Fatal(err)
			}
			after, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(ofSession)))
			if err != nil || !bytes.Equal(before, after) {
				t.Errorf("%v, and %d bytes, want the %d as they were", err, len(after), len(before))
			}
		})
	}
}

// within runs a function once, as soon as a file exists; it checks whenever the context is read.
type within struct {
	context.Context
	file string
	do   func()
}

func (w *within) Err() error {
	if _, err := os.Stat(w.file); err == nil && w.do != nil {
		do := w.do
		w.do = nil
		do()
	}
	return w.Context.Err()
}

// TestDeletedDuringABackup deletes an image after the database was copied and before its blob was:
// the backup fails. With a blob that was lost before, it succeeds.
func TestDeletedDuringABackup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rows bool // go, too
		want error
	}{
		"with its row":    {rows: true, want: perdure.Unavailable},
		"the blob itself": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			to := filepath.Join(t.TempDir(), "copy")
			blob := filepath.Join(p.dir, filepath.FromSlash(p.blobName("a picture")))
			done := false
			ctx := &within{context.Background(), filepath.Join(to+".unfinished", backup.SQLFolder), func() {
				done = true
				if c.rows {
					p.write(func(tx store.Tx) error { return tx.Sessions().Remove(session) })
				}
				if err := os.Remove(blob); err != nil {
					t.Error(err)
				}
			}}

			_, err := backup.Take(ctx, backup.Config{Dir: p.dir, To: to})

			left, _ := filepath.Glob(to + "*")
			if !done || !errors.Is(err, c.want) || (err != nil) != (len(left) == 0) {
				t.Errorf("deleted %t, got %v, and %v, want %v", done, err, left, c.want)
			}
			again := p.take()
			if c.rows {
				whole(t, again)
			} else {
				wrong(t, again, "is missing")
			}
		})
	}
}

// TestKilledRestore begins a restore anew that was killed after each of its renames. One that had
// given the database its name was complete, and is not touched.
func TestKilledRestore(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	safe := filepath.Join(t.TempDir(), "safe")
	if err := os.Mkdir(safe, 0o700); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(safe, "copy")
	m, err := backup.Take(context.Background(), backup.Config{Dir: p.dir, To: to, WithKey: true})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range m.Files {
		top, _, _ := strings.Cut(f.Path, "/")
		if top != sqlite.DatabaseName && !slices.Contains(names, top) {
			names = append(names, top)
		}
	}
	if names = append(names, sqlite.DatabaseName); len(names) != 4 {
		t.Fatalf("got %v, want four names", names)
	}
	for n := range len(names) + 1 {
		dir := t.TempDir()
		half := filepath.Join(dir, "restoring")
		if err := os.CopyFS(half, os.DirFS(to)); err != nil {
			t.Fatal(err)
		}
		for _, name := range names[:n] {
			if err := os.Rename(filepath.Join(half, name), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}

		_, err := backup.Restore(to, dir)

		if n == len(names) {
			if !errors.Is(err, perdure.Conflict) {
				t.Errorf("after all: got %v, want a conflict", err)
			}
		} else if _, left := os.Stat(half); err != nil || !errors.Is(left, fs.ErrNotExist) {
			t.Errorf("after %v: got %v, and the folder in which it came: %v, want none", names[:n], err, left)
		}
		whole(t, dir)
	}
}

// TestRestoreLeavesStrangers takes nothing away that no restore left.
func TestRestoreLeavesStrangers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	to := p.take()
	for name, files := range map[string][]string{
		"without a restore":     {"sql/thing"},
		"with another's file":   {"restoring/perdure.db", "thing"},
		"with a database there": {"restoring/thing", "perdure.db", "sql/thing"},
	} {
		dir := t.TempDir()
		for _, file := range files {
			place{T: t, dir: dir}.file(file, "words")
		}

		if _, err := backup.Restore(to, dir); !errors.Is(err, perdure.Conflict) {
			t.Errorf("%s: got %v, want a conflict", name, err)
		}

		for _, file := range files {
			if text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file))); err != nil || string(text) != "words" {
				t.Errorf("%s: %s is %q, %v, want it as it was", name, file, text, err)
			}
		}
	}
}

// TestRenewedBlobStays puts a blob again after the rows were read that do not name it yet.
func TestRenewedBlobStays(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.litter()
	orphan := p.blob("an orphan")
	g := backup.Garbage{RemoveRun: func(context.Context, string) error { // runs go before blobs
		then := time.Now().Add(2 * time.Hour)
		return os.Chtimes(orphan, then, then)
	}}

	got := p.collect(g, 2*time.Hour)

	if _, err := os.Stat(orphan); err != nil || got.Blobs != 0 || got.BlobBytes != 0 || got.Runs != 2 {
		t.Errorf("got %+v, and the blob: %v, want it to stay", got, err)
	}
}
