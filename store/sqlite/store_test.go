package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/store/storetest"
)

// TestStore checks the laws of the port. A store is reopened in its directory.
func TestStore(t *testing.T) {
	t.Parallel()
	empty := emptyDatabase()
	var dirs sync.Map // *sqlite.Store to its directory
	openIn := func(t *testing.T, dir string) store.Store {
		t.Helper()
		s := open(t, sqlite.Config{Dir: dir})
		dirs.Store(s, dir)
		return s
	}
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) store.Store {
			t.Helper()
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, "perdure.db"), empty(t))
			return openIn(t, dir)
		},
		Reopen: func(t *testing.T, old store.Store) store.Store {
			t.Helper()
			closed(t, old.(*sqlite.Store))
			dir, _ := dirs.Load(old)
			return openIn(t, dir.(string))
		},
		Traces: func(t *testing.T, st store.Store, id perdure.SessionID) []string {
			t.Helper()
			dir, _ := dirs.Load(st)
			return traces(t, dir.(string), id)
		},
	})
}

// traces searches every column of every table for a session's id.
func traces(t *testing.T, dir string, id perdure.SessionID) []string {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "perdure.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`SELECT name FROM sqlite_schema WHERE type = 'table'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, name)
	}
	if err := rows.Err(); err != nil || len(tables) == 0 {
		t.Fatalf("got tables %v, %v, want some", tables, err)
	}
	return storetest.TracesIn(t, db, tables, id)
}

// emptyDatabase returns a function that returns an empty database, made once: the migrations take
// longer than most laws.
func emptyDatabase() func(t *testing.T) []byte {
	var once sync.Once
	var content []byte
	return func(t *testing.T) []byte {
		t.Helper()
		once.Do(func() {
			dir := t.TempDir()
			closed(t, open(t, sqlite.Config{Dir: dir}))
			content = readFile(t, filepath.Join(dir, "perdure.db"))
		})
		return content
	}
}
