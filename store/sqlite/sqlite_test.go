package sqlite_test

import (
	"context"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// theSession is the one session of the tests that need only one.
const theSession = perdure.SessionID("session_00000000000070008000000000000001")

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// open opens a data directory for the length of the test.
func open(t *testing.T, cfg sqlite.Config) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, s) })
	return s
}

// withSession opens a data directory that has theSession.
func withSession(t *testing.T, cfg sqlite.Config) *sqlite.Store {
	t.Helper()
	s := open(t, cfg)
	write(t, s, func(tx store.Tx) error { return tx.Sessions().Create(store.Session{ID: theSession, CreatedAt: noon}) })
	return s
}

func closed(t *testing.T, s *sqlite.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, s *sqlite.Store, fn func(store.Tx) error) {
	t.Helper()
	if err := s.InTx(context.Background(), fn); err != nil {
		t.Fatal(err)
	}
}

func read[T any](t *testing.T, s *sqlite.Store, fn func(store.Reader) (T, error)) T {
	t.Helper()
	var found T
	err := s.View(context.Background(), func(r store.Reader) (err error) {
		found, err = fn(r)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func journal(t *testing.T, s *sqlite.Store) []perdure.Event {
	t.Helper()
	return read(t, s, func(r store.Reader) ([]perdure.Event, error) { return r.Journal().Events(theSession, 0, 0) })
}

func titled(id string) perdure.Event {
	return perdure.Event{ID: perdure.EventID(id), At: noon, Fact: perdure.SessionUpdated{Title: id}}
}
