//go:build soak

package local_test

import (
	"testing"

	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/internal/pgtest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
)

// TestEngineOnPostgres is the suite over a PostgreSQL database, which survives, and is reopened
// after each crash. Each engine ends before the next one opens, as under the lock of a data
// directory.
func TestEngineOnPostgres(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, func(t *testing.T, s enginetest.Setup) enginetest.World {
		url := pgtest.Database(t, migrated)
		open := func(t *testing.T) store.Store {
			t.Helper()
			// Few connections: each is a process of the server, and starting them took longer than
			// the laws.
			st, err := postgres.Open(t.Context(), postgres.Config{URL: url, Writers: 3, Readers: 1})
			if err != nil {
				t.Fatal(err)
			}
			return st
		}
		return newWorld(t, s, open, func(st store.Store) { st.Close() })
	})
}

// TestSharedEnginesOnPostgres is the suite of several engines over one PostgreSQL database, each
// with a store of its own.
func TestSharedEnginesOnPostgres(t *testing.T) {
	t.Parallel()
	here := func(t *testing.T, law func(*testing.T)) { law(t) }
	enginetest.RunShared(t, here, func(t *testing.T, s enginetest.Setup) enginetest.SharedWorld {
		url := pgtest.Database(t, migrated)
		return newSharedWorld(t, s, func(t *testing.T) store.Store {
			t.Helper()
			st, err := postgres.Open(t.Context(), postgres.Config{URL: url, Writers: 3, Readers: 1})
			if err != nil {
				t.Fatal(err)
			}
			return st
		}, func(st store.Store) { st.Close() })
	})
}
