package sqlite_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// TestMigrate opens databases that earlier versions wrote. Each has a session, an event, a call, a
// task with output and a delivery, a file and a worker. Every released schema leaves one in
// testdata.
func TestMigrate(t *testing.T) {
	t.Parallel()
	old, err := filepath.Glob("testdata/schema-*.db.gz")
	if err != nil || len(old) == 0 {
		t.Fatalf("got databases %v, %v, want some", old, err)
	}
	newest := fmt.Sprintf("testdata/schema-%d.db.gz", newestSchema(t))
	for _, name := range old {
		if name == newest {
			continue // nothing in it is old
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			unpack(t, name, filepath.Join(dir, "perdure.db"))

			before := readFile(t, filepath.Join(dir, "perdure.db"))
			_, err := sqlite.Open(context.Background(), sqlite.Config{Dir: dir, ReadOnly: true})
			if !errors.Is(err, perdure.Conflict) ||
				!strings.Contains(err.Error(), "was written by an older version: start perdure with it once") {
				t.Errorf("read-only: got %v, want a conflict that says what to do", err)
			}
			if !bytes.Equal(readFile(t, filepath.Join(dir, "perdure.db")), before) {
				t.Error("read-only: the database was changed")
			}

			migrated := open(t, sqlite.Config{Dir: dir})
			checkOld(t, migrated)
			write(t, migrated, func(tx store.Tx) error {
				return tx.Requests().Begin(store.Request{Scope: "scope", Key: "key"})
			})
			closed(t, migrated)

			again := open(t, sqlite.Config{Dir: dir})
			checkOld(t, again)
			read(t, again, func(r store.Reader) (store.Request, error) { return r.Requests().Get("scope", "key") })
			fresh := t.TempDir()
			closed(t, open(t, sqlite.Config{Dir: fresh}))
			if diff := cmp.Diff(schema(t, fresh), schema(t, dir)); diff != "" {
				t.Errorf("schema (-new +migrated):\n%s", diff)
			}
		})
	}
}

// TestMigrateLanes opens a database of the schema before lanes, with tasks of every origin in the
// queue. The arguments and call ids of some name another origin. Each task gets its own, and tasks
// that use no slot of their session are counted separately.
func TestMigrateLanes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unpack(t, "testdata/schema-3.db.gz", filepath.Join(dir, "perdure.db"))

	s := open(t, sqlite.Config{Dir: dir})

	for _, session := range []perdure.SessionID{theSession, ""} {
		got := read(t, s, func(r store.Reader) ([]store.TaskCount, error) {
			return r.Tasks().Count(perdure.TaskQueued, session)
		})
		if diff := cmp.Diff([]store.TaskCount{{Session: theSession, N: 7, Detached: 2, Agents: 1}}, got); diff != "" {
			t.Errorf("counts of %q (-want +got):\n%s", session, diff)
		}
	}
	want := map[perdure.TaskID]perdure.Origin{}
	for _, task := range read(t, s, func(r store.Reader) ([]perdure.Task, error) {
		return r.Tasks().List(store.TaskFilter{})
	}) {
		want[task.ID] = task.Origin
	}
	if diff := cmp.Diff(want, origins(t, dir)); diff != "" || len(want) != 8 {
		t.Errorf("origins of %d tasks (-record +column):\n%s", len(want), diff)
	}
	messages := read(t, s, func(r store.Reader) ([]perdure.TaskMessage, error) {
		return r.Tasks().Messages("task_00000000000070008000000000000002", "", 0)
	})
	if len(messages) != 1 || messages[0].Text != "message of schema 3" || string(messages[0].Data) != `{"n":3}` ||
		messages[0].By != "" {
		t.Errorf("got messages %+v", messages)
	}
	approvals := read(t, s, func(r store.Reader) ([]perdure.Approval, error) {
		return r.Approvals().List(store.ApprovalFilter{})
	})
	if len(approvals) != 0 {
		t.Errorf("got approvals %v, want none", approvals)
	}
}

// TestMigrateSubagents opens a database of the schema before subagents. Its sessions become roots.
// Its tasks are pruned by the end time in their records, with their own approvals, whatever their
// arguments say.
func TestMigrateSubagents(t *testing.T) {
	t.Parallel()
	const (
		first, old, unknown = "task_00000000000070008000000000000042", "task_00000000000070008000000000000041",
			"task_00000000000070008000000000000043"
		young, asking = "task_00000000000070008000000000000044", "task_00000000000070008000000000000045"
	)
	dir := t.TempDir()
	unpack(t, "testdata/schema-4.db.gz", filepath.Join(dir, "perdure.db"))
	noonish := time.Date(2026, 3, 29, 12, 0, 0, 123_456_000, time.UTC)

	s := open(t, sqlite.Config{Dir: dir})

	session := read(t, s, func(r store.Reader) (store.Session, error) { return r.Sessions().Get(theSession) })
	if session.Root != theSession || session.Parent != "" || session.Forked != "" {
		t.Errorf("got lineage %q, %q, %q", session.Root, session.Parent, session.Forked)
	}
	before := read(t, s, func(r store.Reader) ([]perdure.Task, error) { return r.Tasks().List(store.TaskFilter{}) })
	gone := prune(t, s, noonish, 0)
	if len(gone) != 0 {
		t.Errorf("got %v before the first end, want none", gone)
	}
	gone = append(prune(t, s, noonish.Add(time.Minute), 1), prune(t, s, noonish.Add(time.Minute), 0)...)
	if diff := cmp.Diff([]perdure.TaskID{first, old}, gone); diff != "" {
		t.Errorf("pruned (-want +got):\n%s", diff)
	}
	after := read(t, s, func(r store.Reader) ([]perdure.Task, error) { return r.Tasks().List(store.TaskFilter{}) })
	if len(after) != len(before)-2 {
		t.Errorf("got %d tasks of %d, want two less", len(after), len(before))
	}
	for _, id := range []perdure.TaskID{unknown, young, asking} {
		read(t, s, func(r store.Reader) (perdure.Task, error) { return r.Tasks().Get(theSession, id) })
	}
	approvals := read(t, s, func(r store.Reader) ([]perdure.Approval, error) {
		return r.Approvals().List(store.ApprovalFilter{})
	})
	var calls []perdure.CallID
	for _, a := range approvals {
		calls = append(calls, a.Call)
	}
	if diff := cmp.Diff([]perdure.CallID{`call "52"`, "call_53", "call_54", "call_55"}, calls); diff != "" {
		t.Errorf("approvals that stay (-want +got):\n%s", diff)
	}
}

// prune forgets tasks and returns their ids.
func prune(t *testing.T, s *sqlite.Store, before time.Time, limit int) (gone []perdure.TaskID) {
	t.Helper()
	write(t, s, func(tx store.Tx) error {
		gone = nil
		tasks, err := tx.Tasks().Prune(before, limit)
		for _, task := range tasks {
			gone = append(gone, task.ID)
		}
		return err
	})
	return gone
}

// origins returns the column of each task.
func origins(t *testing.T, dir string) map[perdure.TaskID]perdure.Origin {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "perdure.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`SELECT id, origin FROM task`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	found := map[perdure.TaskID]perdure.Origin{}
	for rows.Next() {
		var id perdure.TaskID
		var origin perdure.Origin
		if err := rows.Scan(&id, &origin); err != nil {
			t.Fatal(err)
		}
		found[id] = origin
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

// checkOld requires every row of the database of an earlier version.
func checkOld(t *testing.T, s *sqlite.Store) {
	t.Helper()
	const task = perdure.TaskID("task_00000000000070008000000000000002")
	session := read(t, s, func(r store.Reader) (store.Session, error) { return r.Sessions().Get(theSession) })
	call := read(t, s, func(r store.Reader) (perdure.Call, error) {
		return r.Calls().Get(perdure.CallKey{Session: theSession, Call: "call_1"})
	})
	events := journal(t, s)
	if session.LastSeq != 1 || !session.CreatedAt.Equal(noon) || call.State != perdure.CallSettled ||
		len(events) != 1 || events[0].ID != "event_1" {
		t.Errorf("got session %+v, call %+v and events %v", session, call, events)
	}
	running := read(t, s, func(r store.Reader) ([]perdure.Task, error) {
		return r.Tasks().List(store.TaskFilter{States: []perdure.TaskState{perdure.TaskRunning}})
	})
	log := read(t, s, func(r store.Reader) ([]store.LogChunk, error) {
		chunks, _, err := r.Tasks().ReadLog(task, 0, 100)
		return chunks, err
	})
	deliveries := read(t, s, func(r store.Reader) ([]store.Delivery, error) { return r.Tasks().Deliveries(theSession) })
	if len(running) != 1 || running[0].ID != task || len(log) != 1 || string(log[0].Bytes) != "output of schema 1" ||
		len(deliveries) != 1 {
		t.Errorf("got tasks %v with output %v and deliveries %v", running, log, deliveries)
	}
	file := read(t, s, func(r store.Reader) (store.File, error) { return r.Files().Get(theSession, "/notes.txt") })
	workers := read(t, s, func(r store.Reader) ([]store.Worker, error) { return r.Workers().List() })
	if string(file.Content) != "content of schema 1" || len(workers) != 1 || workers[0].Host != "host" {
		t.Errorf("got file %+v and workers %+v", file, workers)
	}
}

// schema returns the statements that created the contents of a database, by name.
func schema(t *testing.T, dir string) map[string]string {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "perdure.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`SELECT name, COALESCE(sql, '') FROM sqlite_schema`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			t.Fatal(err)
		}
		found[name] = text
	}
	if err := rows.Err(); err != nil || len(found) == 0 {
		t.Fatalf("got %d things, %v, want some", len(found), err)
	}
	return found
}

func unpack(t *testing.T, from, to string) {
	t.Helper()
	packed, err := gzip.NewReader(bytes.NewReader(readFile(t, from)))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, to, content)
}

// TestBeforeMigration requires that BeforeMigration is called before an old database changes, with
// the lock held, and only then.
func TestBeforeMigration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unpack(t, "testdata/schema-13.db.gz", filepath.Join(dir, "perdure.db"))
	before := readFile(t, filepath.Join(dir, "perdure.db"))
	refused, asked := errors.New("not today"), 0
	ask := func(ctx context.Context, stored, known int64) error {
		asked++
		if stored != 13 || known != newestSchema(t) {
			t.Errorf("asked about schema %d and %d", stored, known)
		}
		if !bytes.Equal(readFile(t, filepath.Join(dir, "perdure.db")), before) {
			t.Error("it was changed before")
		}
		if _, err := sqlite.Open(ctx, sqlite.Config{Dir: dir}); !errors.Is(err, perdure.Conflict) {
			t.Errorf("another process opened it: %v", err)
		}
		return refused
	}

	_, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, BeforeMigration: ask})

	if !errors.Is(err, refused) || asked != 1 || !bytes.Equal(readFile(t, filepath.Join(dir, "perdure.db")), before) {
		t.Errorf("got %v, asked %d times, or it was changed", err, asked)
	}
	refused = nil
	closed(t, open(t, sqlite.Config{Dir: dir, BeforeMigration: ask}))
	closed(t, open(t, sqlite.Config{Dir: dir, BeforeMigration: ask}))
	closed(t, open(t, sqlite.Config{Dir: t.TempDir(), BeforeMigration: ask}))
	if asked != 2 {
		t.Errorf("asked %d times, want once more", asked)
	}
}
