package postgres_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
	"github.com/perdure/perdure/store/storetest"
)

// oneConnection is the law in which a transaction must wait for another one that touches nothing.
// In Postgres such transactions only wait for each other if no connection is left, so this store
// has one.
const oneConnection = "/ends_the_waiting_with_ctx"

// TestStore checks the laws of the port. A store is reopened on its database.
func TestStore(t *testing.T) {
	t.Parallel()
	var urls sync.Map // *postgres.Store to its database
	openOn := func(t *testing.T, url string) store.Store {
		t.Helper()
		cfg := postgres.Config{URL: url, RetryTimeout: patience} // the laws write much, also on a slow machine
		if strings.HasSuffix(t.Name(), oneConnection) {
			cfg.Writers = 1
		}
		s := open(t, cfg)
		urls.Store(s, url)
		return s
	}
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) store.Store {
			t.Helper()
			return openOn(t, database(t))
		},
		Reopen: func(t *testing.T, old store.Store) store.Store {
			t.Helper()
			closed(t, old.(*postgres.Store))
			url, _ := urls.Load(old)
			return openOn(t, url.(string))
		},
		Traces: func(t *testing.T, st store.Store, id perdure.SessionID) []string {
			t.Helper()
			url, _ := urls.Load(st)
			return traces(t, url.(string), id)
		},
	})
}

// traces searches every column of every table for a session's id.
func traces(t *testing.T, url string, id perdure.SessionID) []string {
	t.Helper()
	db := postgres.OpenSQL(t, url)
	rows, err := db.Query(`SELECT tablename FROM pg_tables WHERE schemaname = 'public'`)
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
