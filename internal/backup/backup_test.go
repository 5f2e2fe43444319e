package backup_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/backup"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const session = perdure.SessionID("session_00000000000070008000000000000001")

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// place is a data directory with something of everything, held by a store.
type place struct {
	*testing.T
	dir string
	st  *sqlite.Store
}

func newPlace(t *testing.T) place {
	t.Helper()
	p := place{T: t, dir: filepath.Join(t.TempDir(), "data")}
	if err := os.CopyFS(p.dir, filledPlace(t)); err != nil {
		t.Fatal(err)
	}
	p.st = p.open(p.dir)
	return p
}

// filled is what a place begins with, made once: the migrations take longer than most tests.
var filled struct {
	sync.Once
	files fstest.MapFS
}

// filledPlace returns the files of a place in which something of everything is.
func filledPlace(t *testing.T) fs.FS {
	t.Helper()
	filled.Do(func() {
		p := fill(t)
		if err := p.st.Close(); err != nil {
			t.Fatal(err)
		}
		filled.files = fstest.MapFS{}
		err := filepath.WalkDir(p.dir, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			name, _ := filepath.Rel(p.dir, file)
			text, err := os.ReadFile(file)
			filled.files[filepath.ToSlash(name)] = &fstest.MapFile{Data: text, Mode: 0o600}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	return filled.files
}

// fill makes a data directory with something of everything.
func fill(t *testing.T) place {
	t.Helper()
	p := place{T: t, dir: filepath.Join(t.TempDir(), "data")}
	p.st = p.open(p.dir)
	p.write(func(tx store.Tx) error {
		if err := tx.Sessions().Create(store.Session{ID: session, Title: "kept", Status: perdure.SessionStarted, CreatedAt: noon}); err != nil {
			return err
		}
		_, err := tx.Files().Put(session, store.File{Path: "/notes.txt", Content: []byte("words"), Encoding: store.EncodingText})
		return err
	})
	p.append(3)
	p.snapshot()
	p.image(p.blob("a picture"))
	p.database(session, "main")
	for _, name := range []string{"token", "reserve", backup.KeyringFile} {
		p.file(name, name+" of the place")
	}
	return p
}

func (p place) open(dir string) *sqlite.Store {
	p.Helper()
	st, err := sqlite.Open(context.Background(), sqlite.Config{Dir: dir})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if err := st.Close(); err != nil {
			p.Error(err)
		}
	})
	return st
}

func (p place) write(fn func(store.Tx) error) {
	p.Helper()
	if err := p.st.InTx(context.Background(), fn); err != nil {
		p.Fatal(err)
	}
}

// append adds events to the session, the first of which begins it.
func (p place) append(n int) {
	p.Helper()
	for range n {
		p.write(func(tx store.Tx) error {
			row, err := tx.Sessions().Get(session)
			if err != nil {
				return err
			}
			fact := perdure.Fact(perdure.SessionUpdated{Title: "kept"})
			if row.LastSeq == 0 {
				fact = perdure.SessionCreated{Agent: perdure.Agent{Title: "kept"}}
			}
			return tx.Journal().Append(session, []perdure.Event{{ID: perdure.EventID(fmt.Sprintf("event_%d", row.LastSeq+1)), At: noon, Actor: "user", Fact: fact}})
		})
	}
}

// snapshot keeps the fold of the session.
func (p place) snapshot() {
	p.Helper()
	p.write(func(tx store.Tx) error {
		events, err := tx.Journal().Events(session, 0, 0)
		if err != nil {
			return err
		}
		fold := perdure.NewSession(session)
		for _, e := range events {
			if err := fold.Apply(e); err != nil {
				return err
			}
		}
		body, err := perdure.EncodeSnapshot(fold)
		if err != nil {
			return err
		}
		return tx.Sessions().PutSnapshot(session, store.Snapshot{Seq: fold.Seq, Version: perdure.FoldVersion, Body: body})
	})
}

func (p place) file(name, text string) string {
	p.Helper()
	file := filepath.Join(p.dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		p.Fatal(err)
	}
	return file
}

func (p place) blob(text string) string {
	p.Helper()
	sum := sha256.Sum256([]byte(text))
	name := hex.EncodeToString(sum[:])
	return p.file(backup.BlobFolder+"/"+name[:2]+"/"+name, text)
}

// image makes a row for a blob.
func (p place) image(blob string) {
	p.Helper()
	p.write(func(tx store.Tx) error {
		_, err := tx.Images().Put(store.Image{
			ID: "image_00000000000070008000000000000001", Session: session, Filename: "a.png", ContentType: "image/png", SizeBytes: 9,
			SHA256: filepath.Base(blob), Metadata: []byte("{}"), Blob: true,
		})
		return err
	})
}

// database makes a database of a session, with a row.
func (p place) database(id perdure.SessionID, name string) string {
	p.Helper()
	file := p.file(backup.SQLFolder+"/"+string(id)+"/"+name+".db", "")
	exec(p.T, file, `CREATE TABLE t (word TEXT); INSERT INTO t VALUES ('kept')`)
	return file
}

func exec(t *testing.T, file, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(statement)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// ofSession is the database of the session of a place, in a data directory and in a backup.
var ofSession = backup.SQLFolder + "/" + string(session) + "/main.db"

// killed leaves the database of the session as a process does that is killed in a transaction: with
// half of it written, and the journal that says how it was.
func (p place) killed() {
	p.Helper()
	file := filepath.Join(p.dir, filepath.FromSlash(ofSession))
	exec(p.T, file, `CREATE TABLE big (word TEXT); WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) INSERT INTO big SELECT 'kept' || i FROM n`)
	db, err := sql.Open("sqlite", file)
	if err != nil {
		p.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1; BEGIN; UPDATE big SET word = 'half of it'`); err != nil {
		p.Fatal(err)
	}
	half, err := os.ReadFile(file)
	journal, readErr := os.ReadFile(file + "-journal")
	if _, rollErr := db.Exec(`ROLLBACK`); errors.Join(err, readErr, rollErr) != nil || !bytes.Contains(half, []byte("half of it")) {
		p.Fatalf("%v, and %d bytes of journal", errors.Join(err, readErr, rollErr), len(journal))
	}
	if err := errors.Join(os.WriteFile(file, half, 0o600), os.WriteFile(file+"-journal", journal, 0o600)); err != nil {
		p.Fatal(err)
	}
}

// words counts the rows of a database that say something.
func words(t *testing.T, file, like string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err == nil {
		err = errors.Join(db.QueryRow(`SELECT count(*) FROM big WHERE word LIKE $1`, like).Scan(&n), db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// take backs the place up.
func (p place) take() string {
	p.Helper()
	to := filepath.Join(p.TempDir(), "copy")
	if _, err := backup.Take(context.Background(), backup.Config{Dir: p.dir, To: to}); err != nil {
		p.Fatal(err)
	}
	return to
}

// whole wants a directory in which nothing is wrong.
func whole(t *testing.T, dir string) backup.Report {
	t.Helper()
	rep, err := backup.Verify(context.Background(), dir)
	if err != nil || len(rep.Problems) > 0 {
		t.Fatalf("verify %s: got %v, %q, want nothing wrong", filepath.Base(dir), err, rep.Problems)
	}
	return rep
}

// wrong wants a directory in which something is wrong, in these words.
func wrong(t *testing.T, dir, want string) {
	t.Helper()
	rep, err := backup.Verify(context.Background(), dir)
	if err != nil || !strings.Contains(strings.Join(rep.Problems, "\n"), want) {
		t.Errorf("got %v, %q, want something wrong that says %q", err, rep.Problems, want)
	}
}

func TestBackupIsWhole(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file("home", "home_00000000000070008000000000000001\n") // a restored copy is another home

	to := p.take()

	rep := whole(t, to)
	if !rep.Backup || rep.Sessions != 1 || rep.Events != 3 || rep.Files != 1 || rep.Snapshots != 1 || rep.Databases != 1 || rep.Blobs != 1 {
		t.Errorf("got %+v", rep)
	}
	for _, name := range []string{"token", "reserve", "lock", "home", backup.KeyringFile} {
		if _, err := os.Stat(filepath.Join(to, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is in the backup: %v", name, err)
		}
	}
	if left, _ := filepath.Glob(to + ".*"); len(left) > 0 {
		t.Errorf("left is %v, want nothing", left)
	}
}

func TestRestoreIsTheSame(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	to := p.take()
	p.append(5) // not in the backup

	dir := filepath.Join(t.TempDir(), "restored")
	if _, err := backup.Restore(to, dir); err != nil {
		t.Fatal(err)
	}

	if rep := whole(t, dir); rep.Events != 3 {
		t.Errorf("got %d events, want the 3 of the moment", rep.Events)
	}
	q := place{T: t, dir: dir}
	q.st = q.open(dir)
	q.append(1)
	exec(t, filepath.Join(dir, backup.SQLFolder, string(session), "main.db"), `INSERT INTO t SELECT word FROM t`)
	if entries, err := os.ReadDir(filepath.Join(dir, "restoring")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder in which it came: got %v, %v, want none", entries, err)
	}
}

// TestBackupWhileOthersWrite makes one backup after another while sessions grow: each backup is
// intact, and has everything that was acknowledged before it started.
func TestBackupWhileOthersWrite(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	stop, grown := make(chan struct{}), make(chan int, 1)
	grown <- 3
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				p.append(1)
				grown <- <-grown + 1
			}
		}
	})
	for range 5 {
		least := <-grown
		grown <- least
		if rep := whole(t, p.take()); rep.Events < least {
			t.Errorf("got %d events, want the %d that were acknowledged", rep.Events, least)
		}
	}
	close(stop)
	group.Wait()
}

func TestBackupRefusals(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	taken := p.take()
	half := filepath.Join(t.TempDir(), "half")
	if err := os.Mkdir(half+".unfinished", 0o700); err != nil {
		t.Fatal(err)
	}
	open := t.TempDir()
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg  backup.Config
		kind error
	}{
		"a folder that is there":       {backup.Config{Dir: p.dir, To: taken}, perdure.Conflict},
		"one that was left unfinished": {backup.Config{Dir: p.dir, To: half}, perdure.Conflict},
		"no data directory":            {backup.Config{Dir: t.TempDir(), To: filepath.Join(t.TempDir(), "x")}, perdure.NotFound},
		"the key where all can read":   {backup.Config{Dir: p.dir, To: filepath.Join(open, "x"), WithKey: true}, perdure.Invalid},
	} {
		if _, err := backup.Take(context.Background(), c.cfg); !errors.Is(err, c.kind) {
			t.Errorf("%s: got %v, want %v", name, err, c.kind)
		}
		if c.cfg.To != taken {
			if _, err := os.Stat(c.cfg.To); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: something has the name of the backup: %v", name, err)
			}
		}
	}
	whole(t, taken)
}

func TestBackupWithKey(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	safe := filepath.Join(t.TempDir(), "safe")
	if err := os.Mkdir(safe, 0o700); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(safe, "copy")

	m, err := backup.Take(context.Background(), backup.Config{Dir: p.dir, To: to, WithKey: true})

	key, readErr := os.ReadFile(filepath.Join(to, backup.KeyringFile))
	if err != nil || readErr != nil || !m.HasKey || string(key) != "keyring of the place" {
		t.Errorf("got %v, %v, %t and %q, want the key", err, readErr, m.HasKey, key)
	}
	whole(t, to)
}

// TestCanceledBackup ends a backup in the middle: nothing is left.
func TestCanceledBackup(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	to := filepath.Join(t.TempDir(), "copy")

	_, err := backup.Take(ctx, backup.Config{Dir: p.dir, To: to})

	left, _ := filepath.Glob(to + "*")
	if !errors.Is(err, context.Canceled) || len(left) > 0 {
		t.Errorf("got %v, and %v, want canceled and nothing", err, left)
	}
}

// TestDamagedBackup changes each file of a backup in turn: verify says so, and restore takes
// nothing.
func TestDamagedBackup(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	to := p.take()
	m, err := backup.Read(to)
	if err != nil || len(m.Files) != 3 {
		t.Fatalf("got %v, %v, want three files", m.Files, err)
	}
	for _, f := range m.Files {
		file := filepath.Join(to, filepath.FromSlash(f.Path))
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		changed := bytes.Clone(before)
		changed[len(changed)/2] ^= 1
		for what, content := range map[string][]byte{"a bit": changed, "its end": before[:len(before)-1], "more": append(bytes.Clone(before), 0)} {
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			wrong(t, to, f.Path+" was changed")
			dir := filepath.Join(t.TempDir(), "restored")
			if _, err := backup.Restore(to, dir); !errors.Is(err, perdure.Invalid) {
				t.Errorf("%s of %s: restore: got %v, want invalid", what, f.Path, err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("%s of %s: left is %v, %v, want nothing", what, f.Path, left, err)
			}
		}
		if err := errors.Join(os.Remove(file)); err != nil {
			t.Fatal(err)
		}
		wrong(t, to, f.Path+" is missing")
		if err := os.WriteFile(file, before, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	whole(t, to)
	if err := os.WriteFile(filepath.Join(to, "stray"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wrong(t, to, "stray is not in the manifest")
}

func TestRestoreRefusals(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	to := p.take()
	used := t.TempDir()
	if err := os.WriteFile(filepath.Join(used, "thing"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	if _, err := backup.Restore(to, used); !errors.Is(err, perdure.Conflict) {
		t.Errorf("into a directory that is used: got %v, want a conflict", err)
	}
	if _, err := backup.Restore(to, p.dir); !errors.Is(err, perdure.Conflict) {
		t.Errorf("into a data directory: got %v, want a conflict", err)
	}
	if _, err := backup.Restore(p.dir, t.TempDir()); !errors.Is(err, perdure.NotFound) {
		t.Errorf("from what is no backup: got %v, want not found", err)
	}
	escape := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(escape, os.DirFS(to)); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(escape, "manifest.json")
	text, err := os.ReadFile(manifest)
	if err == nil {
		err = os.WriteFile(manifest, bytes.Replace(text, []byte(`"perdure.db"`), []byte(`"../perdure.db"`), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(escape, t.TempDir()); !errors.Is(err, perdure.Invalid) {
		t.Errorf("a path that leaves: got %v, want invalid", err)
	}
}

// TestInterruptedRestore begins a restore anew in which another one was killed.
func TestInterruptedRestore(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	to := p.take()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "restoring"), os.DirFS(filepath.Join(to, backup.SQLFolder))); err != nil {
		t.Fatal(err)
	}

	if _, err := backup.Restore(to, dir); err != nil {
		t.Fatal(err)
	}

	whole(t, dir)
}

// TestForeignKeysOfASession: a session's own database may contain dangling references.
func TestForeignKeysOfASession(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	file := filepath.Join(p.dir, filepath.FromSlash(ofSession))
	exec(t, file, `CREATE TABLE parent (id INTEGER, word TEXT); CREATE TABLE child (word TEXT REFERENCES parent (word)); INSERT INTO child VALUES ('x')`)

	whole(t, p.dir)
	whole(t, p.take())
}
