package sqlite_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// TestMigrate opens databases that earlier versions wrote. Each has a session, an event, a call, a task with
// output and a delivery, a file and a worker; every schema that was released leaves one in testdata.
func TestMigrate(t *testing.T) {
	t.Parallel()
	old, err := filepath.Glob("testdata/schema-*.db.gz")
	if err != nil || len(old) == 0 {
		t.Fatalf("got databases %v, %v, want some", old, err)
	}
	for _, name := range old {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			unpack(t, name, filepath.Join(dir, "perdure.db"))

			before := readFile(t, filepath.Join(dir, "perdure.db"))
			_, err := sqlite.Open(context.Background(), sqlite.Config{Dir: dir, ReadOnly: true})
			if !errors.Is(err, perdure.Conflict) || !strings.Contains(err.Error(), "was written by an older version: start perdure with it once") {
				t.Errorf("read-only: got %v, want a conflict that says what to do", err)
			}
			if !bytes.Equal(readFile(t, filepath.Join(dir, "perdure.db")), before) {
				t.Error("read-only: the database was changed")
			}

			migrated := open(t, sqlite.Config{Dir: dir})
			checkOld(t, migrated)
			write(t, migrated, func(tx store.Tx) error { return tx.BeginRequest(store.Request{Scope: "scope", Key: "key"}) })
			closed(t, migrated)

			again := open(t, sqlite.Config{Dir: dir})
			checkOld(t, again)
			read(t, again, func(r store.Reader) (store.Request, error) { return r.Request("scope", "key") })
			fresh := t.TempDir()
			closed(t, open(t, sqlite.Config{Dir: fresh}))
			if diff := cmp.Diff(schema(t, fresh), schema(t, dir)); diff != "" {
				t.Errorf("schema (-new +migrated):\n%s", diff)
			}
		})
	}
}

// checkOld wants all that the database of an earlier version had.
func checkOld(t *testing.T, s *sqlite.Store) {
	t.Helper()
	const task = perdure.TaskID("task_00000000000070008000000000000002")
	session := read(t, s, func(r store.Reader) (store.Session, error) { return r.Session(theSession) })
	call := read(t, s, func(r store.Reader) (perdure.Call, error) {
		return r.Call(perdure.CallKey{Session: theSession, Call: "call_1"})
	})
	events := journal(t, s)
	if session.LastSeq != 1 || !session.CreatedAt.Equal(noon) || call.State != perdure.CallSettled || len(events) != 1 || events[0].ID != "event_1" {
		t.Errorf("got session %+v, call %+v and events %v", session, call, events)
	}
	running := read(t, s, func(r store.Reader) ([]perdure.Task, error) {
		return r.Tasks(store.TaskFilter{States: []perdure.TaskState{perdure.TaskRunning}})
	})
	log := read(t, s, func(r store.Reader) ([]store.LogChunk, error) {
		chunks, _, err := r.ReadLog(task, 0, 100)
		return chunks, err
	})
	deliveries := read(t, s, func(r store.Reader) ([]store.Delivery, error) { return r.Deliveries(theSession) })
	if len(running) != 1 || running[0].ID != task || len(log) != 1 || string(log[0].Bytes) != "output of schema 1" || len(deliveries) != 1 {
		t.Errorf("got tasks %v with output %v and deliveries %v", running, log, deliveries)
	}
	file := read(t, s, func(r store.Reader) (store.File, error) { return r.File(theSession, "/notes.txt") })
	workers := read(t, s, func(r store.Reader) ([]store.Worker, error) { return r.Workers() })
	if string(file.Content) != "content of schema 1" || len(workers) != 1 || workers[0].Host != "host" {
		t.Errorf("got file %+v and workers %+v", file, workers)
	}
}

// schema returns the statements that made what is in a database, by name.
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
