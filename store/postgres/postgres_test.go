package postgres_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/pgtest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
)

// theSession is the one session of the tests that need only one.
const theSession = perdure.SessionID("session_00000000000070008000000000000001")

// patience is how long a test waits for an expected event.
const patience = 2 * time.Minute

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// migrated creates the schema in a test database.
func migrated(url string) error {
	s, err := postgres.Open(context.Background(), postgres.Config{URL: url})
	if err != nil {
		return err
	}
	return s.Close()
}

// database makes a database for the length of a test.
func database(t *testing.T) string {
	t.Helper()
	return pgtest.Database(t, migrated)
}

// open opens a database for the length of the test.
func open(t *testing.T, cfg postgres.Config) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, s) })
	return s
}

func closed(t *testing.T, s *postgres.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, s store.Store, fn func(store.Tx) error) {
	t.Helper()
	if err := s.InTx(context.Background(), fn); err != nil {
		t.Fatal(err)
	}
}

// begun adds theSession.
func begun(t *testing.T, s store.Store) {
	t.Helper()
	write(t, s, func(tx store.Tx) error { return tx.Sessions().Create(store.Session{ID: theSession, CreatedAt: noon}) })
}

func journal(t *testing.T, s store.Store) (events []perdure.Event) {
	t.Helper()
	err := s.View(context.Background(), func(r store.Reader) (err error) {
		events, err = r.Journal().Events(theSession, 0, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func titled(id string) perdure.Event {
	return perdure.Event{ID: perdure.EventID(id), At: noon, Fact: perdure.SessionUpdated{Title: id}}
}
