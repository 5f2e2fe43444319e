// Package storetest holds the laws that every store keeps: one file a noun, each law given a store of its own.
//
// It may import the root, agent and store. The one thing to know: a law speaks of the promises in store's comments
// and of nothing else, so that a store which keeps them all can take the place of any other (R31). An adapter
// needs a test of a few lines:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Harness{Open: open, Reopen: reopen})
//	}
package storetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// patience is how long a law waits for what must come.
const patience = 30 * time.Second

// crowd is how many goroutines a law lets loose at once.
const crowd = 16

// Harness is what the laws ask of an adapter.
type Harness struct {
	// Open returns a store without anything in it, which the adapter closes and removes when t ends. Laws may
	// close it too.
	Open func(t *testing.T) store.Store
	// Reopen closes a store and returns what the next process finds in its place; the adapter cleans that up
	// as well. nil is for a store that nothing outlives: the laws go on with the same one.
	Reopen func(t *testing.T, old store.Store) store.Store
	// Traces returns the places where a session's id still stands, in the words of the adapter: of an SQL store TracesIn,
	// with all of its tables. Nil breaks the law that nothing is left of a removed session.
	Traces func(t *testing.T, st store.Store, id perdure.SessionID) []string
}

// Run checks all laws, each as a test of its own: noun/law.
func Run(t *testing.T, h Harness) {
	for _, n := range nouns() {
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			for _, l := range n.laws {
				t.Run(l.name, func(t *testing.T) {
					t.Parallel()
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					t.Cleanup(cancel)
					defer reportPanic(t)
					l.check(&subject{T: t, Store: h.Open(t), harness: h, ctx: ctx})
				})
			}
		})
	}
}

// reportPanic makes a panic the failure of one law, so that a broken store is shown all the laws that it breaks.
func reportPanic(t *testing.T) {
	if p := recover(); p != nil {
		t.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// noun is a group of laws.
type noun struct {
	name string
	laws []law
}

// law is one promise of the port.
type law struct {
	name  string
	check func(*subject)
}

func nouns() []noun {
	return []noun{
		{"journal", journalLaws()},
		{"session", sessionLaws()},
		{"label", labelLaws()},
		{"call", append(callLaws(), callInDoubtLaws()...)},
		{"settle", settleLaws()},
		{"task", taskLaws()},
		{"taskprune", taskPruneLaws()},
		{"taskmessage", taskMessageLaws()},
		{"outbox", outboxLaws()},
		{"log", logLaws()},
		{"file", fileLaws()},
		{"worker", workerLaws()},
		{"request", requestLaws()},
		{"approval", approvalLaws()},
		{"spawn", spawnLaws()},
		{"partial", partialLaws()},
		{"resource", resourceLaws()},
		{"lease", leaseLaws()},
		{"cleanup", cleanupLaws()},
		{"schedule", scheduleLaws()},
		{"value", valueLaws()},
		{"image", imageLaws()},
		{"secret", secretLaws()},
		{"budget", budgetLaws()},
		{"directory", directoryLaws()},
		{"payment", paymentLaws()},
		{"rate", rateLaws()},
		{"webhook", webhookLaws()},
		{"token", tokenLaws()},
		{"audit", auditLaws()},
		{"dump", dumpLaws()},
		{"remove", removeLaws()},
		{"tx", txLaws()},
		{"view", viewLaws()},
		{"watch", watchLaws()},
	}
}

// subject is the store under test, with the test that it is under.
type subject struct {
	*testing.T
	store.Store

	harness Harness
	ctx     context.Context // ends with the law, or when it takes too long
	minted  atomic.Uint64
}

func sameMoment(a, b time.Time) bool { return a.Equal(b) && a.Location() == b.Location() }

// write runs a transaction that must succeed.
func (s *subject) write(fn func(store.Tx) error) {
	s.Helper()
	if err := s.InTx(s.ctx, fn); err != nil {
		s.Fatalf("transaction: %v", err)
	}
}

// read runs a view that must succeed.
func (s *subject) read(fn func(store.Reader) error) {
	s.Helper()
	if err := s.View(s.ctx, fn); err != nil {
		s.Fatalf("view: %v", err)
	}
}

// refused runs a transaction that must fail with want.
func (s *subject) refused(want error, fn func(store.Tx) error) {
	s.Helper()
	if err := s.InTx(s.ctx, fn); !errors.Is(err, want) {
		s.Fatalf("got error %v, want %v", err, want)
	}
}

// unknown runs a view that must answer NotFound.
func (s *subject) unknown(fn func(store.Reader) error) {
	s.Helper()
	if err := s.View(s.ctx, fn); !errors.Is(err, perdure.NotFound) {
		s.Fatalf("got error %v, want %v", err, perdure.NotFound)
	}
}

// same compares. A slice or map of nothing is the same as none, and a moment must also be in the same zone,
// which is UTC in all that comes from a store. It may be called in a fn.
func (s *subject) same(what string, got, want any) {
	s.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Comparer(sameMoment)); diff != "" {
		s.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// reopen goes on with the store that the next process would find.
func (s *subject) reopen() {
	s.Helper()
	if s.harness.Reopen != nil {
		s.Store = s.harness.Reopen(s.T, s.Store)
	}
}

// within runs fn and waits for it, but not for ever: it may hang in a store that breaks the law.
func (s *subject) within(fn func() error) error {
	s.Helper()
	done := make(chan error, 1)
	go func() { done <- fn() }()
	select {
	case err := <-done:
		return err
	case <-s.ctx.Done():
		s.Fatal("it waits on")
		return nil
	}
}

// together runs fn in n goroutines at once and waits for all. None may fail.
func (s *subject) together(n int, fn func(i int) error) {
	s.Helper()
	errs := make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			errs[i] = fn(i)
		})
	}
	close(start)
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		s.Fatal(err)
	}
}

// race runs fn in a crowd of goroutines at once. Exactly one may succeed, all others must fail with lost. It
// returns the one.
func (s *subject) race(lost error, fn func(i int) error) (winner int) {
	s.Helper()
	errs := make([]error, crowd)
	s.together(crowd, func(i int) error {
		errs[i] = fn(i)
		return nil
	})
	won := 0
	for i, err := range errs {
		switch {
		case err == nil:
			winner = i
			won++
		case !errors.Is(err, lost):
			s.Errorf("got error %v, want %v", err, lost)
		}
	}
	if won != 1 {
		s.Fatalf("%d of %d won, want one", won, crowd)
	}
	return winner
}

// mint returns an id that this store has not seen.
func mint[T perdure.ID](s *subject) T {
	var uuid [16]byte
	binary.BigEndian.PutUint64(uuid[8:], s.minted.Add(1))
	return perdure.FormatID[T](uuid)
}

// moment is a time with all the digits that a store keeps. Each n is another one.
func moment(n int) time.Time {
	return time.Date(2026, 3, 29, 1, 59, 58, 987_654_000, time.UTC).Add(time.Duration(n) * time.Microsecond)
}

// session adds a session and returns its id.
func (s *subject) session() perdure.SessionID {
	s.Helper()
	row := s.newSession()
	s.write(func(tx store.Tx) error { return tx.CreateSession(row) })
	return row.ID
}

func (s *subject) newSession() store.Session {
	id := mint[perdure.SessionID](s)
	return store.Session{
		ID: id, Root: id, Title: "a session", Status: perdure.SessionStarted,
		Secret: perdure.Secret{1, 2, 3}, CreatedAt: moment(0), UpdatedAt: moment(1),
	}
}

// events returns n events that say something.
func (s *subject) events(n int) []perdure.Event {
	events := make([]perdure.Event, n)
	for i := range events {
		events[i] = perdure.Event{
			ID: mint[perdure.EventID](s), At: moment(i), Actor: "user",
			Fact: perdure.SessionUpdated{Title: fmt.Sprintf("title %d", i)},
		}
	}
	return events
}

// append adds n events to a session's journal.
func (s *subject) append(id perdure.SessionID, n int) {
	s.Helper()
	events := s.events(n)
	s.write(func(tx store.Tx) error { return tx.Append(id, events) })
}

// journal returns all events of a session.
func (s *subject) journal(id perdure.SessionID) []perdure.Event {
	s.Helper()
	var events []perdure.Event
	s.read(func(r store.Reader) (err error) {
		events, err = r.Events(id, 0, 0)
		return err
	})
	return events
}
