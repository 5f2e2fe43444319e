package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

func TestOpen(t *testing.T) {
	t.Parallel()

	t.Run("makes a directory for its owner alone", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "a b", "c?d#e%41")

		withSession(t, sqlite.Config{Dir: dir})

		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("got %v, %v, want permissions 0700", info.Mode(), err)
		}
		if _, err := os.Stat(filepath.Join(dir, "perdure.db")); err != nil {
			t.Error(err)
		}
	})

	t.Run("finds what was there", func(t *testing.T) {
		t.Parallel()
		cfg := sqlite.Config{Dir: t.TempDir()}
		first := withSession(t, cfg)
		write(t, first, func(tx store.Tx) error { return tx.Journal().Append(theSession, []perdure.Event{titled("event_1")}) })
		closed(t, first)

		second := open(t, cfg)

		if got := journal(t, second); len(got) != 1 || got[0].ID != "event_1" {
			t.Errorf("got %v, want event_1", got)
		}
	})

	t.Run("refuses to open without a directory", func(t *testing.T) {
		t.Parallel()

		_, err := sqlite.Open(context.Background(), sqlite.Config{})

		if !errors.Is(err, perdure.Invalid) {
			t.Errorf("got %v, want invalid", err)
		}
	})

	t.Run("refuses a directory that cannot be written", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()

		got := strings.Join(unprivileged(t, "hold", dir), "\n")

		want := "storage: data directory " + dir +
			" is not writable: make it writable, or use another directory"
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})

	t.Run("refuses what a newer version wrote", func(t *testing.T) {
		t.Parallel()
		cfg := sqlite.Config{Dir: t.TempDir()}
		closed(t, open(t, cfg))
		raw(t, cfg.Dir, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)`)
		before := readFile(t, filepath.Join(cfg.Dir, "perdure.db"))

		for _, readOnly := range []bool{false, true} {
			cfg.ReadOnly = readOnly
			_, err := sqlite.Open(context.Background(), cfg)

			want := "data directory " + cfg.Dir +
				" was written by a newer version (schema 99, this program knows 26): use that version or a newer one"
			if !errors.Is(err, perdure.Conflict) || !strings.Contains(err.Error(), want) {
				t.Errorf("read-only %t: got %v, want a conflict with %q", readOnly, err, want)
			}
		}
		if !bytes.Equal(readFile(t, filepath.Join(cfg.Dir, "perdure.db")), before) {
			t.Error("the database was changed")
		}
	})
}

func TestOpenForeignFile(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		make func(t *testing.T, dir string)
		want string
	}{
		{"garbage", func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, "perdure.db"), bytes.Repeat([]byte("garbage "), 4096))
		}, "is not a database, or is damaged: it was not changed"},
		{"damaged", func(t *testing.T, dir string) {
			closed(t, withSession(t, sqlite.Config{Dir: dir}))
			damage(t, dir)
		}, "is not a database, or is damaged: it was not changed"},
		{"damaged in the table of its version", func(t *testing.T, dir string) {
			closed(t, withSession(t, sqlite.Config{Dir: dir}))
			damageVersions(t, dir)
		}, "is not a database, or is damaged: it was not changed"},
		{"damaged next to the log of a killed holder", func(t *testing.T, dir string) {
			closed(t, withSession(t, sqlite.Config{Dir: dir}))
			holder := startChild(t, "append", dir)
			holder.line(t)
			holder.kill()
			damage(t, dir)
		}, "is not a database, or is damaged: it was not changed"},
		{"another program's", func(t *testing.T, dir string) {
			raw(t, dir, `CREATE TABLE song (id INTEGER)`)
		}, "is a database of another program: it was not changed"},
		{"another program's with a log", func(t *testing.T, dir string) {
			other := t.TempDir()
			db, err := sql.Open("sqlite", filepath.Join(other, "perdure.db")+"?_pragma=journal_mode(WAL)")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.Exec(`CREATE TABLE song (id INTEGER)`); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"perdure.db", "perdure.db-wal"} { // as they are before it is closed
				writeFile(t, filepath.Join(dir, name), readFile(t, filepath.Join(other, name)))
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}, "is a database of another program: it was not changed"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c.make(t, dir)
			file := filepath.Join(dir, "perdure.db")
			before, logBefore := readFile(t, file), logFile(dir)

			for _, readOnly := range []bool{false, true} {
				_, err := sqlite.Open(context.Background(), sqlite.Config{Dir: dir, ReadOnly: readOnly})

				if !errors.Is(err, perdure.Storage) || !strings.Contains(err.Error(), file+" "+c.want) {
					t.Errorf("read-only %t: got %v, want %q about %s", readOnly, err, c.want, file)
				}
			}
			if !bytes.Equal(readFile(t, file), before) || !bytes.Equal(logFile(dir), logBefore) {
				t.Error("the file or its log was changed")
			}
		})
	}
}

// damage writes over the root of the schema.
func damage(t *testing.T, dir string) {
	t.Helper()
	file := filepath.Join(dir, "perdure.db")
	content := readFile(t, file)
	copy(content[100:], bytes.Repeat([]byte{0xff}, 4096))
	writeFile(t, file, content)
}

// damageVersions writes over the root of the table that has the schema's version.
func damageVersions(t *testing.T, dir string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "perdure.db"))
	if err != nil {
		t.Fatal(err)
	}
	var page, size int
	err = errors.Join(db.QueryRow(`SELECT rootpage FROM sqlite_schema WHERE name = 'goose_db_version'`).Scan(&page),
		db.QueryRow(`PRAGMA page_size`).Scan(&size), db.Close())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "perdure.db")
	content := readFile(t, file)
	copy(content[(page-1)*size:], bytes.Repeat([]byte{0xff}, size))
	writeFile(t, file, content)
}

// logFile returns the write-ahead log of a directory; a missing one is empty.
func logFile(dir string) []byte {
	content, _ := os.ReadFile(filepath.Join(dir, "perdure.db-wal"))
	return content
}

func TestReadOnly(t *testing.T) {
	t.Parallel()

	t.Run("reads while another process holds the directory", func(t *testing.T) {
		t.Parallel()
		cfg := sqlite.Config{Dir: t.TempDir()}
		holder := withSession(t, cfg)
		reader := open(t, sqlite.Config{Dir: cfg.Dir, ReadOnly: true})
		write(t, holder, func(tx store.Tx) error { return tx.Journal().Append(theSession, []perdure.Event{titled("event_1")}) })

		got := journal(t, reader)

		if len(got) != 1 {
			t.Errorf("got %d events, want what was acknowledged", len(got))
		}
	})

	t.Run("reads without a holder, writes nothing and takes no lock", func(t *testing.T) {
		t.Parallel()
		cfg := sqlite.Config{Dir: t.TempDir()}
		closed(t, withSession(t, cfg))
		file := filepath.Join(cfg.Dir, "perdure.db")
		before := readFile(t, file)

		reader := open(t, sqlite.Config{Dir: cfg.Dir, ReadOnly: true})
		got := read(t, reader, func(r store.Reader) (store.Session, error) { return r.Sessions().Get(theSession) })

		if got.ID != theSession {
			t.Errorf("got %v, want the session", got)
		}
		if !bytes.Equal(readFile(t, file), before) {
			t.Error("the database was changed")
		}
		closed(t, open(t, cfg))
	})

	t.Run("reads what a killed holder left in its log", func(t *testing.T) {
		t.Parallel()
		cfg := sqlite.Config{Dir: t.TempDir()}
		closed(t, withSession(t, cfg))
		holder := startChild(t, "append", cfg.Dir)
		for range 5 {
			holder.line(t)
		}
		holder.kill()

		reader := open(t, sqlite.Config{Dir: cfg.Dir, ReadOnly: true})

		if got := journal(t, reader); len(got) < 5 {
			t.Errorf("got %d events, want the 5 that were acknowledged", len(got))
		}
	})
}

func TestReadOnlyRefuses(t *testing.T) {
	t.Parallel()

	t.Run("a directory where nothing is", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "missing")

		_, err := sqlite.Open(context.Background(), sqlite.Config{Dir: dir, ReadOnly: true})

		if !errors.Is(err, perdure.NotFound) || !strings.Contains(err.Error(),
			"there is nothing in data directory "+dir+" yet") {
			t.Errorf("got %v, want not found with its reason", err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("the directory was made")
		}
	})

	t.Run("transactions", func(t *testing.T) {
		t.Parallel()
		cfg := sqlite.Config{Dir: t.TempDir()}
		closed(t, open(t, cfg))
		cfg.ReadOnly = true
		reader := open(t, cfg)

		err := reader.InTx(context.Background(), func(store.Tx) error { return nil })

		if !errors.Is(err, perdure.Unavailable) || !strings.Contains(err.Error(), "is open for reading only") {
			t.Errorf("got %v, want unavailable with its reason", err)
		}
	})

	t.Run("what an older version wrote", func(t *testing.T) {
		t.Parallel()
		cfg := sqlite.Config{Dir: t.TempDir()}
		closed(t, open(t, cfg))
		raw(t, cfg.Dir, `DELETE FROM goose_db_version WHERE version_id > 0`)
		cfg.ReadOnly = true

		_, err := sqlite.Open(context.Background(), cfg)

		want := "data directory " + cfg.Dir + " was written by an older version: start perdure with it once"
		if !errors.Is(err, perdure.Conflict) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a conflict with %q", err, want)
		}
	})

	t.Run("a directory that cannot be written, and says why", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		closed(t, open(t, sqlite.Config{Dir: dir}))

		got := strings.Join(unprivileged(t, "read", dir), "\n")

		want := "storage: data directory " + dir +
			" cannot be read without writing next to its database: make it writable, or copy it"
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// unprivileged runs a role on a directory without write permission, as a user without privileges,
// and returns the output.
func unprivileged(t *testing.T, role, dir string) []string {
	t.Helper()
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	if os.Getuid() != 0 {
		return startChild(t, role, dir).rest()
	}
	program := filepath.Join(t.TempDir(), "program")
	writeFile(t, program, readFile(t, os.Args[0]))
	for _, path := range []string{program, filepath.Dir(program), filepath.Dir(filepath.Dir(program)),
		filepath.Dir(dir)} {
		if err := os.Chmod(path, 0o755); err != nil { // only this user may enter t.TempDir
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return startCommand(t, cmd, role).rest()
}

// raw runs a statement on the database of a directory, past the store.
func raw(t *testing.T, dir, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "perdure.db"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(statement)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func writeFile(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
