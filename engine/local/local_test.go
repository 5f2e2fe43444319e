package local_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/sqlite"
)

// TestMain checks for leaked goroutines.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEngine is the suite over the in-memory store: fast, so that every law runs on every change.
func TestEngine(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, func(t *testing.T, s enginetest.Setup) enginetest.World {
		st := memory.New(memory.Config{})
		return newWorld(t, s, func(*testing.T) store.Store { return st }, func(store.Store) {})
	})
}

// TestEngineOnSQLite is the same suite over SQLite: the directory survives, and is reopened after
// each crash.
func TestEngineOnSQLite(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, func(t *testing.T, s enginetest.Setup) enginetest.World {
		dir := t.TempDir()
		open := func(t *testing.T) store.Store {
			t.Helper()
			st, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			return st
		}
		return newWorld(t, s, open, func(st store.Store) { st.Close() })
	})
}
